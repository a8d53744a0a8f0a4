//! Code that the tests share: runtimes, the session of a test, and what is recorded in its pool.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use profiler_core::internal::entry::stack::Frame;
use profiler_core::internal::entry::{Entry, MarkerEntry, Timing};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader, Snapshot};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_tokio::{ProfiledRuntime, RuntimeRules};
use test_support::patience::until;
use tokio::runtime::Builder;

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

/// A runtime with two workers.
pub(crate) fn two_workers(rules: &RuntimeRules) -> ProfiledRuntime {
    let mut builder = Builder::new_multi_thread();
    rules.build(builder.worker_threads(2).enable_all()).unwrap()
}

/// A runtime without threads of its own.
pub(crate) fn one_thread(rules: &RuntimeRules) -> ProfiledRuntime {
    rules
        .build(Builder::new_current_thread().enable_all())
        .unwrap()
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    U64(u64),
    F64(f64),
    Text(String),
}

/// Whether a marker is an instant, an interval, or one end of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Instant,
    Interval,
    Start,
    End,
}

impl Phase {
    fn of(timing: Timing) -> Self {
        match timing {
            Timing::Instant(_) => Self::Instant,
            Timing::Interval(..) => Self::Interval,
            Timing::Start(_) => Self::Start,
            Timing::End(_) => Self::End,
        }
    }
}

/// A recorded marker.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) phase: Phase,
    /// The fields that have a value.
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) labels: Vec<String>,
}

impl Seen {
    pub(crate) fn field(&self, key: &str) -> Option<Value> {
        let field = self.fields.iter().find(|(known, _)| known == key);
        field.map(|(_, value)| value.clone())
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.field(key)? {
            Value::U64(number) => Some(number),
            other => panic!("{key}: {other:?}"),
        }
    }

    pub(crate) fn span(&self) -> u64 {
        self.number("span").unwrap()
    }

    pub(crate) fn milliseconds(&self, key: &str) -> f64 {
        match self.field(key) {
            Some(Value::F64(number)) => number,
            other => panic!("{key}: {other:?}"),
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.field(key)? {
            Value::Text(text) => Some(text),
            other => panic!("{key}: {other:?}"),
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

/// The value of a counter.
pub(crate) fn counter(name: &str) -> Option<i64> {
    let snapshot = pool().snapshot().unwrap();
    let mut all = snapshot.counters.iter();
    let found = all.find(|counter| counter.definition.name == name)?;
    Some(found.value)
}

/// The names of all threads that have recorded something or were named.
pub(crate) fn thread_names() -> Vec<String> {
    let snapshot = pool().snapshot().unwrap();
    let threads = snapshot.threads.iter();
    threads.map(|thread| thread.name.clone()).collect()
}

/// All recorded markers, in the order of each thread.
pub(crate) fn markers() -> Vec<Seen> {
    let mut all = Vec::new();
    for_each_marker(|snapshot, marker| all.push(seen(snapshot, marker)));
    all
}

/// The number of markers of this phase whose names contain `part`.
#[cfg(tokio_unstable)]
pub(crate) fn count(phase: Phase, part: &str) -> usize {
    let mut count = 0;
    for_each_marker(|snapshot, marker| {
        let site = snapshot.definitions.site(marker.site).unwrap();
        count += usize::from(Phase::of(marker.timing) == phase && site.name.contains(part));
    });
    count
}

fn for_each_marker(mut each: impl FnMut(&Snapshot, &MarkerEntry<'_>)) {
    let reader = pool();
    let snapshot = reader.snapshot().unwrap();
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.threads.iter().flat_map(|thread| &thread.chunks) {
        let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() else {
            continue;
        };
        for entry in entries {
            if let Entry::Marker(marker) = entry {
                each(&snapshot, &marker);
            }
        }
    }
}

/// The recorded markers of this name, the starts first.
pub(crate) fn named(name: &str) -> Vec<Seen> {
    let mut all = markers();
    all.retain(|seen| seen.name == name);
    all.sort_by_key(|seen| seen.phase == Phase::End);
    all
}

/// The start and the end of the only task of this name.
pub(crate) fn start_and_end(name: &str) -> [Seen; 2] {
    let mut all = named(name);
    all.retain(|seen| matches!(seen.phase, Phase::Start | Phase::End));
    let both: [Seen; 2] = all.try_into().unwrap();
    assert_eq!([both[0].phase, both[1].phase], [Phase::Start, Phase::End]);
    assert_eq!(both[0].span(), both[1].span());
    both
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
    let label = |frame| match frame {
        Frame::Label(id) => Some(definitions.label(id)?.name.clone()),
        _ => None,
    };
    Seen {
        name: marker.name.unwrap_or(&site.name).to_owned(),
        phase: Phase::of(marker.timing),
        fields: fields
            .filter_map(|(key, value)| Some((key, value?)))
            .collect(),
        labels: marker.stack.frames().filter_map(label).collect(),
    }
}

fn value(value: FieldValue<'_>) -> Option<Value> {
    Some(match value {
        FieldValue::None => return None,
        FieldValue::U64(value) => Value::U64(value),
        FieldValue::F64(value) => Value::F64(value),
        FieldValue::Str(value) => Value::Text(value.to_owned()),
        other => panic!("{other:?}"),
    })
}

/// Uses the processor until the session's clock has advanced by this many milliseconds.
pub(crate) fn spin(milliseconds: u64) {
    let watch = test_support::patience::Stopwatch::start();
    while watch.elapsed() < std::time::Duration::from_millis(milliseconds) {
        std::hint::spin_loop();
    }
}

/// The variable with the file that a child makes when it is ready.
pub(crate) const READY: &str = "TOKIO_TEST_READY";

/// A command that runs a test of this program as a child that makes the file `ready`.
pub(crate) fn child_test(name: &str, ready: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]);
    command.env(READY, ready);
    command
}

/// Waits until a file exists.
pub(crate) fn wait_for(file: &Path) {
    assert!(until(|| file.exists()), "the child is not ready");
}
