//! The data that an observer receives: batches of markers, in plain serialisable types.
//!
//! Made by the reader thread, taken by the host and by the live page. Invariants: all times of all
//! processes are on the clock of the session; the size of a marker is bounded for any payload,
//! because markers wait in a bounded queue.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use profiler_core::ids::{ProcessId, ThreadId};
use profiler_core::time::{MonotonicNs, UnixNs};
use serde::{Serialize, Serializer};

use crate::session_time::SessionNs;

/// A text shared by many markers.
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

/// The number of a span, unique among all observed processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct SpanNumber(pub u64);

/// Relates session time to the clocks of the machine; the same for all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BatchClock {
    /// When the session started, on the machine's monotonic clock.
    pub start_monotonic: MonotonicNs,
    /// When the session started, in wall time.
    pub start_unix: UnixNs,
    /// When the batch was closed.
    pub now: SessionNs,
}

/// The process and thread that recorded a marker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Process id in the system.
    pub process: ProcessId,
    /// Display name of the process.
    pub process_name: SharedText,
    /// Id in the system of the thread that the marker belongs to.
    pub thread: ThreadId,
    /// Display name of the thread; empty if unknown.
    pub thread_name: SharedText,
}

/// The kind of an observed marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// A point in time: its end equals its start.
    Instant,
    /// An interval that was recorded after its end.
    Interval,
    /// An interval whose start and end were recorded separately.
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
    /// A floating-point number.
    F64(f64),
    /// A text.
    Text(String),
    /// Several values.
    List(Vec<Value>),
}

/// A field of a payload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Field {
    /// The key.
    pub key: SharedText,
    /// The display format, as the profile's schema names it.
    pub format: &'static str,
    /// The value.
    pub value: Value,
}

/// A flow that a marker is part of. Markers of all processes with the same identifier belong
/// together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// The identifier; numbers in hexadecimal, as in the profile.
    pub id: String,
    /// Whether the flow ends with this marker.
    pub ends: bool,
}

/// A detail recorded for a span while it was open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// The name of the detail.
    pub name: SharedText,
    /// The value of the detail.
    pub value: String,
}

/// A marker, or a span that is running.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ObservedMarker {
    /// The process and thread that recorded it.
    #[serde(flatten)]
    pub origin: Origin,
    /// Name, cut after the first KiB.
    pub name: SharedText,
    /// Name of the category.
    pub category: SharedText,
    /// The kind of marker.
    pub shape: Shape,
    /// The start time.
    pub start: SessionNs,
    /// The end time; `None` while the span is running, and if its process ended before the span
    /// did.
    pub end: Option<SessionNs>,
    /// The span number, which links a running span to its later end.
    pub span: Option<SpanNumber>,
    /// The span began before the observer was attached.
    pub opened_before: bool,
    /// The process ended before the span did.
    pub unfinished: bool,
    /// The payload.
    pub fields: Vec<Field>,
    /// The flows that it is part of.
    pub flows: Vec<Flow>,
    /// The groups that it belongs to: at most 64, plus the group in its own payload; `*` means all
    /// groups.
    pub groups: Vec<SharedText>,
    /// Details recorded while the span was open.
    pub details: Vec<Detail>,
    /// The payload or a name was too large, and parts are left out.
    pub cut: bool,
}

impl ObservedMarker {
    /// The start of a span in a test, at the start of the session.
    #[cfg(test)]
    pub(crate) fn test_span(thread: u64, name: &str) -> Self {
        let origin = Origin {
            process: ProcessId::new(1),
            process_name: "p".into(),
            thread: ThreadId::new(thread),
            thread_name: "t".into(),
        };
        Self {
            origin,
            name: name.into(),
            category: "Other".into(),
            shape: Shape::Span,
            start: SessionNs(0),
            end: None,
            span: None,
            opened_before: false,
            unfinished: false,
            fields: Vec::new(),
            flows: Vec::new(),
            groups: Vec::new(),
            details: Vec::new(),
            cut: false,
        }
    }

    /// The duration; 0 for a point, `None` while the span is running.
    pub fn duration_ns(&self) -> Option<u64> {
        let end = self.end?;
        Some(u64::try_from(end.0.saturating_sub(self.start.0)).unwrap_or(0))
    }

    /// Approximate size in bytes, as if its texts were not shared.
    pub(crate) fn weight(&self) -> usize {
        let fields: usize = self.fields.iter().map(Field::weight).sum();
        let details: usize = self.details.iter().map(Detail::weight).sum();
        let flows: usize = self
            .flows
            .iter()
            .map(|flow| size_of::<Flow>() + flow.id.len())
            .sum();
        let groups: usize = self
            .groups
            .iter()
            .map(|group| size_of::<SharedText>() + group.len())
            .sum();
        size_of::<Self>()
            + self.name.len()
            + self.category.len()
            + fields
            + details
            + flows
            + groups
    }
}

impl Field {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.key.len() + self.value.weight()
    }
}

impl Detail {
    /// Approximate size in bytes.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.value.len()
    }
}

impl Value {
    fn weight(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(items) => items
                .iter()
                .map(|item| size_of::<Self>() + item.weight())
                .sum(),
            _ => 0,
        }
    }
}

/// The events since the previous batch, for one observer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Batch {
    /// The number of the batch, from 0 and without gaps: a batch that did not fit into the queue
    /// takes no number; its markers are in `dropped`.
    pub sequence: u64,
    /// The clock of its times.
    pub clock: BatchClock,
    /// Completed markers, grouped by thread, in the order in which each thread recorded them.
    pub markers: Vec<ObservedMarker>,
    /// The running spans, the oldest first: the latest 256, or fewer if their details are large.
    pub running: Vec<ObservedMarker>,
    /// Running spans that are not listed.
    pub running_left_out: u64,
    /// Markers that this observer did not receive because its queue was full, so far.
    pub dropped: u64,
    /// Entries of all processes that were evicted before they were read, since the observer was
    /// attached.
    pub missed: u64,
    /// Ends without a start, and starts that were evicted, since the observer was attached.
    pub orphans: u64,
    /// Processes whose memory cannot be read, or has an unexpected format.
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
            fields: vec![Field {
                key: text("k"),
                format: "string",
                value,
            }],
            flows: vec![Flow {
                id: "f".repeat(1_000),
                ends: false,
            }],
            groups: vec![text("g")],
            details: vec![Detail {
                name: text("d"),
                value: "w".repeat(1_000),
            }],
            cut: false,
        };
        assert!(marker.weight() >= 8_000, "{}", marker.weight());
    }
}
