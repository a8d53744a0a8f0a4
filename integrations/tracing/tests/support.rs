//! Code that the tests share: the session of a test, and what is recorded in its pool.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::entry::{Entry, MarkerEntry, Timing};
use profiler_core::internal::entry_counts::DropReason;
use profiler_core::internal::manager::is_maintenance_idle;
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader, Snapshot};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_tracing::{ProfilerSubscriber, RecordingRules};
use test_support::patience::until;

/// The running session of a test. It stops when this is dropped.
pub(crate) struct RunningSession;

impl RunningSession {
    /// Starts the session, after the default subscriber is installed. Waits until `tracing` has
    /// asked it again: a start waits for this only for a limited time.
    pub(crate) fn start() -> Self {
        let session = Self::before_subscriber();
        assert!(until(|| tracing::enabled!(tracing::Level::INFO)));
        session
    }

    /// Starts the session, before a subscriber is installed.
    pub(crate) fn before_subscriber() -> Self {
        session::start(SessionParams::default(), StartOptions::default()).unwrap();
        Self
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
}

/// A subscriber that also records what the filters of the inner one refuse.
pub(crate) fn beyond_filters<S>(inner: S) -> ProfilerSubscriber<S> {
    RecordingRules::default().beyond_filters(true).around(inner)
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
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

/// Whether a marker is an instant, an interval, or one end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Instant,
    Interval,
    Start,
    End,
}

/// A recorded marker.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) phase: Phase,
    pub(crate) category: String,
    pub(crate) type_name: String,
    /// The thread that has recorded it.
    pub(crate) recorder: ThreadId,
    /// The thread that it belongs to, if that is another one.
    pub(crate) foreign: Option<ThreadId>,
    /// The fields that have a value.
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) labels: Vec<String>,
}

impl Seen {
    pub(crate) fn field(&self, key: &str) -> Option<Value> {
        let field = self.fields.iter().find(|(known, _)| known == key);
        field.map(|(_, value)| value.clone())
    }

    pub(crate) fn number(&self) -> u64 {
        match self.field("span") {
            Some(Value::U64(number)) => number,
            other => panic!("{}: {other:?}", self.name),
        }
    }
}

fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// The number of entries that were dropped.
pub(crate) fn dropped() -> u64 {
    pool().snapshot().unwrap().counts().dropped.total()
}

/// The number of entries that were dropped for this reason.
pub(crate) fn dropped_for(reason: DropReason) -> u64 {
    pool().snapshot().unwrap().counts().dropped.of(reason)
}

/// Waits until the recorder has free memory in advance, so that what comes next finds room.
pub(crate) fn wait_for_room() {
    assert!(until(|| is_maintenance_idle() == Some(true)));
}

/// All recorded markers, in the order of each thread.
pub(crate) fn markers() -> Vec<Seen> {
    let reader = pool();
    let snapshot = reader.snapshot().unwrap();
    let mut buffer = ChunkBuffer::default();
    let mut all = Vec::new();
    for thread in &snapshot.threads {
        for chunk in &thread.chunks {
            let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
                continue;
            };
            for entry in entries {
                if let Entry::Marker(marker) = entry {
                    all.push(seen(&snapshot, &marker, thread.tid));
                }
            }
        }
    }
    all
}

/// The recorded markers of this name.
pub(crate) fn named(name: &str) -> Vec<Seen> {
    markers()
        .into_iter()
        .filter(|seen| seen.name == name)
        .collect()
}

fn seen(snapshot: &Snapshot, marker: &MarkerEntry<'_>, recorder: ThreadId) -> Seen {
    let definitions = &snapshot.definitions;
    let site = definitions.site(marker.site).unwrap();
    let marker_type = definitions.marker_type(site.marker_type);
    let keys = marker_type
        .map(|known| known.keys.clone())
        .unwrap_or_default();
    let values = PayloadReader::new(marker.payload).map(Result::unwrap);
    let fields = keys.into_iter().zip(values.map(value));
    let label = |frame| match frame {
        Frame::Label(id) => definitions.label(id).unwrap().name.clone(),
        other => panic!("{other:?}"),
    };
    Seen {
        name: marker.name.unwrap_or(&site.name).to_owned(),
        phase: match marker.timing {
            Timing::Instant(_) => Phase::Instant,
            Timing::Interval(..) => Phase::Interval,
            Timing::Start(_) => Phase::Start,
            Timing::End(_) => Phase::End,
        },
        category: definitions.category(site.category).unwrap().name.clone(),
        type_name: marker_type
            .map(|known| known.schema.name.clone())
            .unwrap_or_default(),
        recorder,
        foreign: marker.foreign,
        fields: fields
            .filter_map(|(key, value)| Some((key, value?)))
            .collect(),
        labels: marker.stack.frames().map(label).collect(),
    }
}

fn value(value: FieldValue<'_>) -> Option<Value> {
    Some(match value {
        FieldValue::None => return None,
        FieldValue::Bool(value) => Value::Bool(value),
        FieldValue::U64(value) => Value::U64(value),
        FieldValue::I64(value) => Value::I64(value),
        FieldValue::F64(value) => Value::F64(value),
        FieldValue::Str(value) => value.into(),
        FieldValue::List(_) => panic!("a list"),
    })
}

/// Runs `body` on another thread, and returns what it returns.
pub(crate) fn on_a_thread<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, body);
        thread.unwrap().join().unwrap()
    })
}

/// A writer for fmt subscribers that keeps what is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    pub(crate) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8(bytes.clone()).unwrap()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
