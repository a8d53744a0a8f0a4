//! Code that the tests share: the session of a test, and what is in its pool.

use std::fs::File;

use profiler_core::internal::entry::{Entry, MarkerEntry, Timing};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader, Snapshot};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;

/// The running session of a test. It stops when this is dropped.
pub(crate) struct RunningSession;

impl RunningSession {
    pub(crate) fn start() -> Self {
        session::start(SessionParams::default(), StartOptions::default()).unwrap();
        Self
    }
}

impl Drop for RunningSession {
    fn drop(&mut self) {
        session::stop();
    }
}

/// Installs the recorder of this crate alone, and starts a session.
pub(crate) fn start_alone() -> RunningSession {
    profiler_metrics::alone().install().unwrap();
    RunningSession::start()
}

fn pool() -> PoolReader<File> {
    PoolReader::open(session::pool_file().unwrap()).unwrap()
}

/// A counter of the profile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenCounter {
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) description: String,
    pub(crate) value: i64,
    pub(crate) changes: u64,
}

/// The counters that metrics have made.
pub(crate) fn counters() -> Vec<SeenCounter> {
    let snapshot = pool().snapshot().unwrap();
    let seen = snapshot.counters.iter().map(|counter| SeenCounter {
        name: counter.definition.name.clone(),
        category: counter.definition.category.clone(),
        description: counter.definition.description.clone(),
        value: counter.value,
        changes: counter.number,
    });
    seen.filter(|seen| !matches!(&*seen.name, "processCPU" | "Resident memory"))
        .collect()
}

pub(crate) fn counter_named(name: &str) -> Option<SeenCounter> {
    counters().into_iter().find(|counter| counter.name == name)
}

/// The value of a counter; 0 if it is not in the profile.
pub(crate) fn value(name: &str) -> i64 {
    counter_named(name).map_or(0, |counter| counter.value)
}

/// The number of entries that were dropped.
pub(crate) fn dropped() -> u64 {
    pool().snapshot().unwrap().counts().dropped.total()
}

/// A marker of a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenMarker {
    pub(crate) name: String,
    pub(crate) type_name: String,
    pub(crate) value: f64,
    pub(crate) times: Option<u64>,
    /// The begin and the end, if it is an interval.
    pub(crate) interval: Option<(Timestamp, Timestamp)>,
}

/// All recorded markers, in the order of each thread.
pub(crate) fn markers() -> Vec<SeenMarker> {
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

fn seen(snapshot: &Snapshot, marker: &MarkerEntry<'_>) -> SeenMarker {
    let definitions = &snapshot.definitions;
    let site = definitions.site(marker.site).unwrap();
    let marker_type = definitions.marker_type(site.marker_type).unwrap();
    let mut values = PayloadReader::new(marker.payload).map(Result::unwrap);
    let Some(FieldValue::F64(value)) = values.next() else {
        panic!("no value")
    };
    SeenMarker {
        name: site.name.clone(),
        type_name: marker_type.schema.name.clone(),
        value,
        times: match values.next() {
            Some(FieldValue::U64(times)) => Some(times),
            _ => None,
        },
        interval: match marker.timing {
            Timing::Interval(begin, end) => Some((begin, end)),
            _ => None,
        },
    }
}
