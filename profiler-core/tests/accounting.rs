//! The books, whatever happens: random sequences of everything that can become of an entry, on
//! several threads. The model is a count of the attempts of each thread.

use std::sync::mpsc;
use std::thread::JoinHandle;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{self};
use profiler_core::ids::{ByteLimit, ThreadId};
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, PoolReader, ThreadInfo};
use profiler_core::marker::schema::MarkerSchema;
use profiler_core::marker::{MarkerOptions, ProfilerMarker, add_untyped_marker, category};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_core::{marker, text_marker};
use test_support::own_process;

#[derive(serde::Serialize)]
struct Picky {
    value: Option<Refused>,
}

struct Refused;

impl serde::Serialize for Refused {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("refused"))
    }
}

impl ProfilerMarker for Picky {
    const TYPE_NAME: &'static str = "Picky";
    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table("Picky")
    }
}

/// What a thread records once.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Named,
    Foreign,
    Text(usize),
    Oversize,
    Unencodable,
}

fn record(kind: Kind) {
    let options = MarkerOptions::default;
    match kind {
        Kind::Plain => marker!("plain"),
        Kind::Named => add_untyped_marker("named", &category::TEST, options()),
        Kind::Foreign => {
            marker!(
                "foreign",
                &category::TEST,
                MarkerOptions { thread: Some(ThreadId::new(1)), ..options() }
            );
        }
        Kind::Text(bytes) => text_marker!("text", &category::TEST, options(), &"x".repeat(bytes)),
        Kind::Oversize => text_marker!("oversize", &category::TEST, options(), &"x".repeat(1_100_000)),
        Kind::Unencodable => {
            marker!("picky", &category::TEST, options(), &Picky { value: Some(Refused) });
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A thread begins to record so many of a kind; nobody waits for it yet.
    Record(prop::sample::Index, Kind, u16),
    /// All threads have recorded what they were told to.
    Settle,
    NewThread,
    EndThread(prop::sample::Index),
    Pause,
    Resume,
    /// Everything released so far goes.
    Evict,
    /// The allowance, in pages.
    Allow(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        6 => Just(Kind::Plain),
        2 => Just(Kind::Named),
        1 => Just(Kind::Foreign),
        4 => (0_usize..20_000).prop_map(Kind::Text),
        1 => Just(Kind::Oversize),
        1 => Just(Kind::Unencodable),
    ];
    let step = prop_oneof![
        12 => (any::<prop::sample::Index>(), kind, 1_u16..400).prop_map(|(t, k, n)| Step::Record(t, k, n)),
        2 => Just(Step::Settle),
        2 => Just(Step::NewThread),
        2 => any::<prop::sample::Index>().prop_map(Step::EndThread),
        1 => Just(Step::Pause),
        2 => Just(Step::Resume),
        2 => Just(Step::Evict),
        2 => (4_u64..300).prop_map(Step::Allow),
    ];
    prop::collection::vec(step, 1..60)
}

/// A recording thread, and how often it was told to record.
struct Worker {
    name: String,
    orders: mpsc::Sender<(Kind, u16)>,
    done: mpsc::Receiver<()>,
    attempts: u64,
    waiting: u64,
    thread: JoinHandle<()>,
}

impl Worker {
    fn new(number: usize) -> Self {
        let name = format!("worker {number}");
        let (orders, told) = mpsc::channel::<(Kind, u16)>();
        let (say, done) = mpsc::channel();
        let body = move || {
            for (kind, count) in told {
                (0..count).for_each(|_| record(kind));
                let _ = say.send(());
            }
        };
        let thread = std::thread::Builder::new().name(name.clone()).spawn(body).unwrap();
        Self { name, orders, done, attempts: 0, waiting: 0, thread }
    }

    fn tell(&mut self, kind: Kind, count: u16) {
        // An entry of a megabyte more or less says nothing new.
        let count = if matches!(kind, Kind::Oversize) { count.min(3) } else { count };
        self.orders.send((kind, count)).unwrap();
        self.attempts += u64::from(count);
        self.waiting += 1;
    }

    fn settle(&mut self) {
        (0..std::mem::take(&mut self.waiting)).for_each(|_| self.done.recv().unwrap());
    }

    /// Ends the thread; gives its name and its attempts.
    fn end(self) -> (String, u64) {
        drop(self.orders);
        self.thread.join().unwrap();
        (self.name, self.attempts)
    }
}

#[derive(Default)]
struct Model {
    workers: Vec<Worker>,
    ended: Vec<(String, u64)>,
}

impl Model {
    fn add(&mut self) {
        self.workers.push(Worker::new(self.workers.len() + self.ended.len()));
    }

    fn take(&mut self, step: Step) {
        let len = self.workers.len();
        match step {
            Step::Record(who, kind, count) => self.workers[who.index(len)].tell(kind, count),
            Step::Settle => self.workers.iter_mut().for_each(Worker::settle),
            Step::NewThread => self.add(),
            Step::EndThread(who) if len > 1 => {
                self.ended.push(self.workers.swap_remove(who.index(len)).end())
            }
            Step::EndThread(_) => {}
            Step::Pause => session::pause(),
            Step::Resume => session::resume(),
            Step::Evict => session::destroy_released_chunks_at_or_before(Timestamp::MAX),
            Step::Allow(pages) => session::set_allowance(ByteLimit::new(pages * 4096)),
        }
    }

    /// Attempts by thread, of all threads together or of those that have ended, too.
    fn attempts(&self) -> Vec<(String, u64)> {
        let alive = self.workers.iter().map(|worker| (worker.name.clone(), worker.attempts));
        alive.chain(self.ended.iter().cloned()).collect()
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.workers.iter_mut().for_each(Worker::settle);
        let reader = support::pool();
        let snapshot = reader.snapshot().unwrap();
        let counts = snapshot.counts();
        let attempts = self.attempts();
        prop_assert_eq!(counts.recorded(), attempts.iter().map(|(_, count)| count).sum::<u64>());
        prop_assert_eq!(counts.unfinished, 0);
        for thread in snapshot.threads.iter().filter(|thread| !thread.is_main) {
            let (_, attempted) = attempts.iter().find(|(name, _)| *name == thread.name).unwrap();
            let recorded = thread.committed() + thread.dropped.total();
            // What a thread tried while there was no row for it, the process has counted.
            let without_row = attempted.saturating_sub(recorded);
            prop_assert!(recorded <= *attempted, "{thread:?}");
            prop_assert!(without_row <= snapshot.gone.dropped.total(), "{thread:?}");
            check_entries(&reader, thread)?;
        }
        Ok(())
    }
}

/// Every chunk that is there holds as many whole entries as it says.
fn check_entries(reader: &PoolReader<std::fs::File>, thread: &ThreadInfo) -> Result<(), TestCaseError> {
    let mut buffer = ChunkBuffer::default();
    for chunk in &thread.chunks {
        if let ChunkRead::Entries(mut entries) = reader.read_chunk(chunk, &mut buffer).unwrap() {
            prop_assert_eq!(entries.by_ref().count() as u64, chunk.entries);
            prop_assert!(!entries.is_damaged());
        }
    }
    Ok(())
}

fn check(pages: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let params = SessionParams { limit: ByteLimit::new(400 * 4096), ..SessionParams::default() };
    let allowance = Some(ByteLimit::new(pages * 4096));
    session::start(params, StartOptions { allowance, ..StartOptions::default() }).unwrap();
    let mut model = Model::default();
    model.add();
    let mut outcome = Ok(());
    for step in steps {
        let checks = matches!(step, Step::Settle);
        model.take(step);
        if checks {
            outcome = outcome.and_then(|()| model.check());
        }
    }
    outcome = outcome.and_then(|()| model.check());
    session::stop();
    model.workers.drain(..).for_each(|worker| drop(worker.end()));
    outcome
}

#[test]
fn recorded_is_delivered_evicted_dropped_and_unfinished_whatever_happens() {
    own_process!();
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() };
    let cases = (9_u64..400, steps());
    TestRunner::new(config).run(&cases, |(pages, steps)| check(pages, steps)).unwrap();
}
