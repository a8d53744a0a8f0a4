//! Property test of the counts: random sequences of all events that decide about entries, on
//! several threads. The model counts the attempts of each thread.

use std::sync::mpsc;
use std::thread::JoinHandle;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{self};
use profiler_core::ids::{ByteLimit, ThreadId};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader, ThreadInfo};
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

/// An entry that a thread records.
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
                MarkerOptions {
                    thread: Some(ThreadId::new(1)),
                    ..options()
                }
            );
        }
        Kind::Text(bytes) => text_marker!("text", &category::TEST, options(), &"x".repeat(bytes)),
        Kind::Oversize => text_marker!(
            "oversize",
            &category::TEST,
            options(),
            &"x".repeat(1_100_000)
        ),
        Kind::Unencodable => {
            marker!(
                "picky",
                &category::TEST,
                options(),
                &Picky {
                    value: Some(Refused)
                }
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A thread begins to record a number of entries of one kind; the test does not wait for it.
    Record(prop::sample::Index, Kind, u16),
    /// Waits until all threads have recorded all requested entries, and checks the counts.
    Settle,
    NewThread,
    EndThread(prop::sample::Index),
    Pause,
    Resume,
    /// Destroys all chunks that are released.
    Evict,
    /// Sets the allowance, in pages.
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

/// A recording thread, and the number of entries that it was ordered to record.
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
        let (orders, received_orders) = mpsc::channel::<(Kind, u16)>();
        let (done_sender, done) = mpsc::channel();
        let body = move || {
            for (kind, count) in received_orders {
                (0..count).for_each(|_| record(kind));
                let _ = done_sender.send(());
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.clone())
            .spawn(body)
            .unwrap();
        Self {
            name,
            orders,
            done,
            attempts: 0,
            waiting: 0,
            thread,
        }
    }

    fn order(&mut self, kind: Kind, count: u16) {
        // A few entries of a megabyte are enough.
        let count = if matches!(kind, Kind::Oversize) {
            count.min(3)
        } else {
            count
        };
        self.orders.send((kind, count)).unwrap();
        self.attempts += u64::from(count);
        self.waiting += 1;
    }

    fn settle(&mut self) {
        (0..std::mem::take(&mut self.waiting)).for_each(|_| self.done.recv().unwrap());
    }

    /// Ends the thread. Returns its name and its attempts.
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
        self.workers
            .push(Worker::new(self.workers.len() + self.ended.len()));
    }

    fn take(&mut self, step: Step) {
        let len = self.workers.len();
        match step {
            Step::Record(who, kind, count) => self.workers[who.index(len)].order(kind, count),
            Step::Settle => self.workers.iter_mut().for_each(Worker::settle),
            Step::NewThread => self.add(),
            Step::EndThread(who) if len > 1 => self
                .ended
                .push(self.workers.swap_remove(who.index(len)).end()),
            Step::EndThread(_) => {}
            Step::Pause => session::pause(),
            Step::Resume => session::resume(),
            Step::Evict => session::destroy_released_chunks_at_or_before(Timestamp::MAX),
            Step::Allow(pages) => session::set_allowance(ByteLimit::new(pages * 4096)),
        }
    }

    /// The attempts of every thread, including threads that have ended.
    fn attempts(&self) -> Vec<(String, u64)> {
        let alive = self
            .workers
            .iter()
            .map(|worker| (worker.name.clone(), worker.attempts));
        alive.chain(self.ended.iter().cloned()).collect()
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.workers.iter_mut().for_each(Worker::settle);
        let reader = support::pool();
        let snapshot = reader.snapshot().unwrap();
        let counts = snapshot.counts();
        let attempts = self.attempts();
        prop_assert_eq!(
            counts.recorded(),
            attempts.iter().map(|(_, count)| count).sum::<u64>()
        );
        prop_assert_eq!(counts.unfinished, 0);
        for thread in snapshot.threads.iter().filter(|thread| !thread.is_main) {
            let (_, attempted) = attempts
                .iter()
                .find(|(name, _)| *name == thread.name)
                .unwrap();
            let recorded = thread.committed() + thread.dropped.total();
            // The process counts the attempts of a thread that has no row.
            let without_row = attempted.saturating_sub(recorded);
            prop_assert!(recorded <= *attempted, "{thread:?}");
            prop_assert!(without_row <= snapshot.gone.dropped.total(), "{thread:?}");
            check_entries(&reader, thread)?;
        }
        Ok(())
    }
}

/// Checks that every readable chunk holds as many whole entries as its slot says.
fn check_entries(
    reader: &PoolReader<std::fs::File>,
    thread: &ThreadInfo,
) -> Result<(), TestCaseError> {
    let mut buffer = ChunkBuffer::default();
    for chunk in &thread.chunks {
        if let Some(mut entries) = reader.read_chunk(chunk, &mut buffer).unwrap() {
            prop_assert_eq!(entries.by_ref().count() as u64, chunk.entries);
            prop_assert!(!entries.is_damaged());
        }
    }
    Ok(())
}

fn check(pages: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let params = SessionParams {
        limit: ByteLimit::new(400 * 4096),
        ..SessionParams::default()
    };
    let allowance = Some(ByteLimit::new(pages * 4096));
    session::start(
        params,
        StartOptions {
            allowance,
            ..StartOptions::default()
        },
    )
    .unwrap();
    let mut model = Model::default();
    model.add();
    let mut outcome = Ok(());
    for step in steps {
        let is_settle = matches!(step, Step::Settle);
        model.take(step);
        if is_settle {
            outcome = outcome.and_then(|()| model.check());
        }
    }
    outcome = outcome.and_then(|()| model.check());
    session::stop();
    model
        .workers
        .drain(..)
        .for_each(|worker| drop(worker.end()));
    outcome
}

#[test]
fn recorded_entries_are_delivered_evicted_dropped_or_unfinished_in_every_history() {
    own_process!();
    let config = ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let cases = (9_u64..400, steps());
    TestRunner::new(config)
        .run(&cases, |(pages, steps)| check(pages, steps))
        .unwrap();
}
