//! Code that the tests share: the session of a test, what is recorded in its pool, and a logger
//! that notes what it gets.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use profiler_core::internal::entry::{Entry, MarkerEntry};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader, Snapshot};
use profiler_core::session::{self, Features, SessionParams, StartOptions};

/// The running session of a test. It stops when this is dropped.
pub(crate) struct RunningSession;

impl RunningSession {
    pub(crate) fn start() -> Self {
        let params = SessionParams {
            features: Features::default().with(Features::STACK_WALK),
            ..SessionParams::default()
        };
        session::start(params, StartOptions::default()).unwrap();
        Self
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
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

/// A recorded marker.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) type_name: String,
    /// The fields that have a value.
    pub(crate) fields: Vec<(String, Value)>,
    /// The number of frames of its stack.
    pub(crate) frames: usize,
}

impl Seen {
    pub(crate) fn field(&self, key: &str) -> Option<Value> {
        let field = self.fields.iter().find(|(known, _)| known == key);
        field.map(|(_, value)| value.clone())
    }
}

fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// The number of entries that were dropped.
pub(crate) fn dropped() -> u64 {
    pool().snapshot().unwrap().counts().dropped.total()
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
                    all.push(seen(&snapshot, &marker));
                }
            }
        }
    }
    all
}

/// The messages of the recorded markers.
pub(crate) fn messages() -> Vec<String> {
    let messages = markers()
        .into_iter()
        .filter_map(|seen| seen.field("message"));
    messages
        .map(|message| match message {
            Value::Text(text) => text,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn seen(snapshot: &Snapshot, marker: &MarkerEntry<'_>) -> Seen {
    let definitions = &snapshot.definitions;
    let site = definitions.site(marker.site).unwrap();
    let marker_type = definitions.marker_type(site.marker_type);
    let keys = marker_type
        .map(|known| known.keys.clone())
        .unwrap_or_default();
    let values = PayloadReader::new(marker.payload).map(Result::unwrap);
    let fields = keys.into_iter().zip(values.map(value));
    Seen {
        name: marker.name.unwrap_or(&site.name).to_owned(),
        category: definitions.category(site.category).unwrap().name.clone(),
        type_name: marker_type
            .map(|known| known.schema.name.clone())
            .unwrap_or_default(),
        fields: fields
            .filter_map(|(key, value)| Some((key, value?)))
            .collect(),
        frames: marker.stack.frames().count(),
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

/// A logger that notes its calls, with a filter of its own.
#[derive(Clone, Debug)]
pub(crate) struct Noting {
    calls: Arc<Mutex<Vec<String>>>,
    filter: LevelFilter,
}

impl Noting {
    pub(crate) fn up_to(filter: LevelFilter) -> Self {
        let calls = Arc::default();
        Self { calls, filter }
    }

    /// The calls since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *calls)
    }

    fn note(&self, call: String) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(call);
    }
}

impl Log for Noting {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let (level, target) = (metadata.level(), metadata.target());
        self.note(format!("enabled {level} {target}"));
        level <= self.filter
    }

    fn log(&self, record: &Record<'_>) {
        // Like most loggers, it formats what its filter lets through, and nothing else.
        if record.level() <= self.filter {
            let text = format!("{} {}", record.level(), record.args());
            self.note(text);
        } else {
            self.note(format!("refused {}", record.level()));
        }
    }

    fn flush(&self) {
        self.note("flush".to_owned());
    }
}
