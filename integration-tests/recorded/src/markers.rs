//! The recorded markers of this process, decoded from its pool.

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::entry::{Entry, MarkerEntry, Timing};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, Snapshot};

use crate::session::pool;

/// Whether a marker is an instant, an interval, or one end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Phase {
    Instant,
    Interval,
    Start,
    End,
}

impl Phase {
    /// The phase of a marker with these times.
    pub fn of(timing: Timing) -> Self {
        match timing {
            Timing::Instant(_) => Self::Instant,
            Timing::Interval(..) => Self::Interval,
            Timing::Start(_) => Self::Start,
            Timing::End(_) => Self::End,
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value {
    Bool(bool),
    U64(u64),
    I64(i64),
    F64(f64),
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Value {
    fn decode(value: FieldValue<'_>) -> Option<Self> {
        Some(match value {
            FieldValue::None => return None,
            FieldValue::Bool(value) => Self::Bool(value),
            FieldValue::U64(value) => Self::U64(value),
            FieldValue::I64(value) => Self::I64(value),
            FieldValue::F64(value) => Self::F64(value),
            FieldValue::Str(value) => value.into(),
            FieldValue::List(_) => panic!("a list"),
        })
    }
}

/// A recorded marker.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its own name, or that of its site.
    pub name: String,
    /// The name of its category.
    pub category: String,
    /// The name of its type; empty if it has none.
    pub type_name: String,
    /// Its times.
    pub timing: Timing,
    /// Whether it is an instant, an interval, or one end of one.
    pub phase: Phase,
    /// The thread that has recorded it.
    pub recorder: ThreadId,
    /// The thread that it belongs to, if that is another one.
    pub foreign: Option<ThreadId>,
    /// The fields that have a value.
    pub fields: Vec<(String, Value)>,
    /// The frames of its stack, outermost first: the names of labels, and the text of others.
    pub stack: Vec<String>,
}

impl Seen {
    fn decode(snapshot: &Snapshot, recorder: ThreadId, marker: &MarkerEntry<'_>) -> Self {
        let definitions = &snapshot.definitions;
        let site = definitions.site(marker.site).unwrap();
        let (type_name, keys) = definitions
            .marker_type(site.marker_type)
            .map(|known| (known.schema.name.clone(), known.keys.clone()))
            .unwrap_or_default();
        let values = PayloadReader::new(marker.payload).map(|value| Value::decode(value.unwrap()));
        let fields = keys.into_iter().zip(values);
        let frame = |frame| match frame {
            Frame::Label(id) => definitions.label(id).unwrap().name.clone(),
            other => format!("{other:?}"),
        };
        Self {
            name: marker.name.unwrap_or(&site.name).to_owned(),
            category: definitions.category(site.category).unwrap().name.clone(),
            type_name,
            timing: marker.timing,
            phase: Phase::of(marker.timing),
            recorder,
            foreign: marker.foreign,
            fields: fields
                .filter_map(|(key, value)| Some((key, value?)))
                .collect(),
            stack: marker.stack.frames().map(frame).collect(),
        }
    }

    /// The value of a field.
    pub fn field(&self, key: &str) -> Option<Value> {
        let field = self.fields.iter().find(|(known, _)| known == key);
        field.map(|(_, value)| value.clone())
    }

    /// The value of a field that is a whole number.
    ///
    /// # Panics
    /// If it is another value.
    pub fn number(&self, key: &str) -> Option<u64> {
        match self.field(key)? {
            Value::U64(number) => Some(number),
            other => panic!("{key}: {other:?}"),
        }
    }

    /// The value of the field `span`: the number of the span.
    ///
    /// # Panics
    /// If it has none.
    pub fn span(&self) -> u64 {
        let span = self.number("span");
        span.unwrap_or_else(|| panic!("{self:?} has no span"))
    }

    /// The value of a field that is a number with a fraction.
    ///
    /// # Panics
    /// If it is another value, or none.
    pub fn float(&self, key: &str) -> f64 {
        match self.field(key) {
            Some(Value::F64(number)) => number,
            other => panic!("{key}: {other:?}"),
        }
    }

    /// The value of a field that is a text.
    ///
    /// # Panics
    /// If it is another value.
    pub fn text(&self, key: &str) -> Option<String> {
        match self.field(key)? {
            Value::Text(text) => Some(text),
            other => panic!("{key}: {other:?}"),
        }
    }
}

/// Calls `each` with each recorded marker and the thread that has recorded it, in the order of each
/// thread.
pub fn for_each_marker(mut each: impl FnMut(&Snapshot, ThreadId, &MarkerEntry<'_>)) {
    let reader = pool();
    let snapshot = reader.snapshot().unwrap();
    let mut buffer = ChunkBuffer::default();
    for thread in &snapshot.threads {
        for chunk in &thread.chunks {
            let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
                continue;
            };
            for entry in entries {
                if let Entry::Marker(marker) = entry {
                    each(&snapshot, thread.tid, &marker);
                }
            }
        }
    }
}

/// All recorded markers, in the order of each thread.
pub fn markers() -> Vec<Seen> {
    let mut all = Vec::new();
    for_each_marker(|snapshot, thread, marker| all.push(Seen::decode(snapshot, thread, marker)));
    all
}

/// The recorded markers of this name, in the order of each thread.
pub fn named(name: &str) -> Vec<Seen> {
    let mut all = markers();
    all.retain(|seen| seen.name == name);
    all
}
