//! What an observer gets: batches of markers, in plain serialisable types.
//!
//! Made by the reader thread, taken by the host and by the live page. Invariants: all times of all processes are on
//! the one clock of the session; a marker is small, whatever its payload was, because it waits in a bounded queue.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use profiler_core::ids::{ProcessId, ThreadId};
use profiler_core::time::{MonotonicNs, UnixNs};
use serde::{Serialize, Serializer};

use crate::session_time::SessionNs;

/// A text that many markers share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SharedText(Arc<str>);

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for SharedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Number of a span among all spans of all processes that are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SpanNumber(pub u64);

/// The bridge from session time to the clocks of the machine, the same for all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BatchClock {
    /// When the session started, on the machine's monotonic clock.
    pub start_monotonic: MonotonicNs,
    /// When the session started, in wall time.
    pub start_unix: UnixNs,
    /// When the batch was closed.
    pub now: SessionNs,
}

/// Who recorded something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// System number of the process.
    pub process: ProcessId,
    /// Shown name of the process.
    pub process_name: SharedText,
    /// System number of the thread that the marker belongs to.
    pub thread: ThreadId,
    /// Shown name of the thread; empty if it is not known.
    pub thread_name: SharedText,
}

/// What an observed marker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A point: its end is its start.
    Instant,
    /// An interval that was recorded when it was over.
    Interval,
    /// An interval of which start and end were recorded.
    Span,
}

/// A value of a payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// No value.
    None,
    /// A boolean.
    Bool(bool),
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A number with decimals.
    F64(f64),
    /// A text.
    Text(String),
    /// Several values.
    List(Vec<Value>),
}

/// A field of a payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Field {
    /// Its key.
    pub key: SharedText,
    /// How it is meant to be shown, as the profile's schema names it.
    pub format: &'static str,
    /// Its value.
    pub value: Value,
}

/// A flow that a marker is part of: markers of all processes with the same number belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// What joins them; numbers in hexadecimal, as in the profile.
    pub id: String,
    /// Whether the flow ends with this marker.
    pub ends: bool,
}

/// Something that was said of a span while it was open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// What it is about.
    pub name: SharedText,
    /// What was said.
    pub value: String,
}

/// One marker, or one span that is running.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ObservedMarker {
    /// Who recorded it.
    #[serde(flatten)]
    pub origin: Origin,
    /// Name; its first KiB if it is longer.
    pub name: SharedText,
    /// Name of the category.
    pub category: SharedText,
    /// What it is.
    pub shape: Shape,
    /// When it began.
    pub start: SessionNs,
    /// When it ended; `None` while it is running, and of a span whose process ended before it did.
    pub end: Option<SessionNs>,
    /// Which span it is, to tell that a running one has ended.
    pub span: Option<SpanNumber>,
    /// It began before the observer came.
    pub opened_before: bool,
    /// Its process ended before it did.
    pub unfinished: bool,
    /// Its payload.
    pub fields: Vec<Field>,
    /// The flows that it is part of.
    pub flows: Vec<Flow>,
    /// The groups that it belongs to, at most 64 besides the one that it names itself; `*` is all.
    pub groups: Vec<SharedText>,
    /// What was said of it while it was open.
    pub details: Vec<Detail>,
    /// Its payload or a name was too large, and the rest is left out.
    pub cut: bool,
}

impl ObservedMarker {
    /// How long it took; 0 for a point, `None` while it is running.
    pub fn duration_ns(&self) -> Option<u64> {
        let end = self.end?;
        Some(u64::try_from(end.0.saturating_sub(self.start.0)).unwrap_or(0))
    }

    /// About how many bytes it takes, if it shares its texts with no other marker.
    pub(crate) fn weight(&self) -> usize {
        let fields: usize = self.fields.iter().map(Field::weight).sum();
        let details: usize = self.details.iter().map(Detail::weight).sum();
        let flows: usize = self.flows.iter().map(|flow| size_of::<Flow>() + flow.id.len()).sum();
        let groups: usize = self.groups.iter().map(|group| size_of::<SharedText>() + group.len()).sum();
        size_of::<Self>() + self.name.len() + self.category.len() + fields + details + flows + groups
    }
}

impl Field {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.value.weight()
    }
}

impl Detail {
    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.value.len()
    }
}

impl Value {
    fn weight(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(items) => items.iter().map(|item| size_of::<Self>() + item.weight()).sum(),
            _ => 0,
        }
    }
}

/// What happened since the batch before, for one observer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Batch {
    /// The how-manieth it is, from 0. None is left out: what did not fit into the queue is in `dropped`.
    pub sequence: u64,
    /// What its times are.
    pub clock: BatchClock,
    /// What is over. In the order in which each thread recorded it, thread after thread.
    pub markers: Vec<ObservedMarker>,
    /// The spans that are running now, the oldest first: the latest 256 of them, fewer if they say very much.
    pub running: Vec<ObservedMarker>,
    /// Running spans that are not listed.
    pub running_left_out: u64,
    /// Markers that this observer did not get because its queue was full, so far.
    pub dropped: u64,
    /// Entries of any process that were evicted before they could be read, since this observer came.
    pub missed: u64,
    /// Ends without a start, and starts for which there was no room, since this observer came.
    pub orphans: u64,
    /// Processes whose memory cannot be read, or is not what our writer writes.
    pub unreadable: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_weighs_at_least_all_the_text_that_it_keeps() {
        let text = |letter: &str| SharedText::from(letter.repeat(1_000).as_str());
        let origin = Origin {
            process: ProcessId::new(1),
            process_name: "p".into(),
            thread: ThreadId::new(1),
            thread_name: "t".into(),
        };
        let value = Value::List(vec![Value::Text("v".repeat(1_000))]);
        let marker = ObservedMarker {
            origin,
            name: text("n"),
            category: text("c"),
            shape: Shape::Instant,
            start: SessionNs(0),
            end: Some(SessionNs(0)),
            span: None,
            opened_before: false,
            unfinished: false,
            fields: vec![Field { key: text("k"), format: "string", value }],
            flows: vec![Flow { id: "f".repeat(1_000), ends: false }],
            groups: vec![text("g")],
            details: vec![Detail { name: text("d"), value: "w".repeat(1_000) }],
            cut: false,
        };
        assert!(marker.weight() >= 8_000, "{}", marker.weight());
    }
}
