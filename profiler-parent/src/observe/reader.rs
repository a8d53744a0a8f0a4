//! The reader thread: one for all observers of a session, only while there is an observer.
//!
//! It sleeps until a pass is due ([`Pace`]). A pass reads the new entries in the pools of all
//! processes, once for all observers. A new process is read from its beginning. An ended process is
//! read to its end and removed within about a second, independently of the periods of observers,
//! because its pool stays open until then. The processes are not involved.
//!
//! A new observer receives the markers and spans that end after it was attached. Spans that were
//! open already are found by reading the entries that are still in the pools; only the first
//! observer causes that read.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use profiler_core::ids::ThreadId;
use profiler_core::time::{Anchor, Timestamp};

use super::event::BatchClock;
use super::process::{Pass, Watched};
use super::schedule::Pace;
use super::subscriber::{Subscriber, Tallies};
use crate::process_table::pool_list::{PoolList, ProcessForReader};
use crate::process_table::{ProcessTable, Remains};
use crate::session_time::{SessionNs, SessionTime};

/// The input of a reader thread.
#[derive(Clone, Debug)]
pub(super) struct ObservedPools {
    pub(super) processes: Arc<ProcessTable>,
    pub(super) time: SessionTime,
}

/// A command to the reader thread.
#[derive(Debug)]
pub(super) enum Command {
    /// A new observer. It waits until the sender is dropped, and receives everything that is
    /// recorded afterwards.
    Attach(Box<Subscriber>, Sender<()>),
    /// An observer has left.
    Left,
}

/// Threads of this process that serve observers. Their records are not reported.
pub(super) type Quiet = Arc<Mutex<BTreeSet<ThreadId>>>;

/// Limit on the bytes that a pass reads from one process, so that a process with much data does not
/// delay the others for long. It is far more than a normal process records in a period. The next
/// pass reads the remaining entries.
const BUDGET: u64 = 16 << 20;

/// The longest sleep, without observers.
const LONG: Duration = Duration::from_secs(3600);

/// The current time, on the clock of all batches.
pub(super) fn clock_now(time: SessionTime) -> BatchClock {
    let clock = time.clock();
    let later = Anchor::take();
    BatchClock {
        start_monotonic: clock.start.monotonic,
        start_unix: clock.start_unix,
        now: SessionNs(clock.converter(later).since_start_ns(later.ticks)),
    }
}

/// Reads for observers until the channel of commands is disconnected.
pub(super) fn run(pools: ObservedPools, commands: &Receiver<Command>, quiet: &Quiet) {
    let _hushed = Hushed::new(quiet);
    let mut reader = Reader::new(pools, Arc::clone(quiet));
    loop {
        match commands.recv_timeout(reader.until_due()) {
            Ok(Command::Attach(subscriber, attached)) => {
                reader.attach(*subscriber);
                drop(attached);
            }
            Ok(Command::Left) => reader.forget_detached_observers(),
            Err(RecvTimeoutError::Timeout) => reader.serve(false),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    reader.forget_detached_observers();
    if !reader.subscribers.is_empty() {
        reader.serve(true);
    }
}

/// Marks a thread that serves observers. The mark is removed on drop, also after a panic, because
/// another thread may get the same id later.
#[derive(Debug)]
pub(super) struct Hushed<'a> {
    quiet: &'a Quiet,
    thread: ThreadId,
}

impl<'a> Hushed<'a> {
    /// Excludes the records of the calling thread from observation.
    pub(super) fn new(quiet: &'a Quiet) -> Self {
        let thread = profiler_core::thread::current();
        lock(quiet).insert(thread);
        Self { quiet, thread }
    }
}

impl Drop for Hushed<'_> {
    fn drop(&mut self) {
        lock(self.quiet).remove(&self.thread);
    }
}

fn lock(quiet: &Quiet) -> std::sync::MutexGuard<'_, BTreeSet<ThreadId>> {
    quiet.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Reader {
    pools: ObservedPools,
    quiet: Quiet,
    subscribers: Vec<Subscriber>,
    watched: PoolList<Watched>,
    /// The losses of the processes that were read to their end.
    gone: Tallies,
    passes: u64,
    pace: Pace,
    next_span: u64,
}

impl Reader {
    const fn new(pools: ObservedPools, quiet: Quiet) -> Self {
        Self {
            pools,
            quiet,
            subscribers: Vec::new(),
            watched: PoolList::new(),
            gone: Tallies {
                missed: 0,
                orphans: 0,
                unreadable: 0,
            },
            passes: 0,
            pace: Pace::new(),
            next_span: 1,
        }
    }

    /// Time until the next pass is due: for a scheduled batch, for a batch that may have become
    /// large, or for the longest interval between passes.
    fn until_due(&mut self) -> Duration {
        let batch = self
            .subscribers
            .iter_mut()
            .map(|one| one.schedule().due())
            .min();
        let by_size = self
            .subscribers
            .iter()
            .any(Subscriber::wants_batches_by_size);
        batch
            .map(|due| due.min(self.pace.due(by_size)))
            .map_or(LONG, |due| {
                let ns = due.0.saturating_sub(clock_now(self.pools.time).now.0);
                Duration::from_nanos(u64::try_from(ns).unwrap_or(0)).min(LONG)
            })
    }

    /// Reads all existing entries, so that later reads return only new ones for this observer.
    fn attach(&mut self, mut subscriber: Subscriber) {
        let since = subscriber.begin();
        self.subscribers.push(subscriber);
        self.read(since, u64::MAX);
        let tallies = self.tallies();
        if let Some(subscriber) = self.subscribers.last_mut() {
            subscriber.catch_up(tallies);
        }
    }

    fn forget_detached_observers(&mut self) {
        self.subscribers.retain(Subscriber::is_there);
    }

    /// Reads, then sends the batches that are due, or all batches if `all`.
    fn serve(&mut self, all: bool) {
        self.forget_detached_observers();
        let clock = self.read(Timestamp::ZERO, if all { u64::MAX } else { BUDGET });
        let tallies = self.tallies();
        let converter = self.pools.time.converter();
        for subscriber in &mut self.subscribers {
            if all || subscriber.schedule().is_due(clock.now) {
                let open = self.watched.iter().flat_map(Watched::open);
                subscriber.update_running(open, converter, clock);
                subscriber.flush(tallies, clock);
                subscriber.schedule().step(clock.now);
            }
        }
    }

    /// Reads the new entries of all pools, at most about `budget` bytes from each. Skips processes
    /// that ended before `since`.
    fn read(&mut self, since: Timestamp, budget: u64) -> BatchClock {
        self.update_processes(since);
        self.passes += 1;
        let clock = clock_now(self.pools.time);
        let quiet = lock(&self.quiet).clone();
        let mut pass = Pass {
            number: self.passes,
            converter: self.pools.time.converter(),
            clock,
            quiet: &quiet,
            subscribers: &mut self.subscribers,
            next_span: &mut self.next_span,
            budget,
        };
        for watched in self.watched.iter_mut() {
            pass.budget = budget;
            if watched.is_over {
                watched.reader.conclude(&mut pass)
            } else {
                watched.reader.advance(&mut pass)
            }
        }
        for watched in self.watched.take_ended(|_| true) {
            self.gone = self.gone.plus(watched.tallies());
        }
        self.pace.note(clock.now, clock_now(self.pools.time).now);
        clock
    }

    /// Finds new processes and ended processes.
    fn update_processes(&mut self, since: Timestamp) {
        let Self {
            pools,
            watched,
            gone,
            ..
        } = self;
        watched.update(&pools.processes, |process| meet(process, since, gone));
    }

    fn tallies(&self) -> Tallies {
        self.watched
            .iter()
            .fold(self.gone, |sum, watched| sum.plus(watched.tallies()))
    }
}

/// Begins to observe a process, unless it ended before `since` or has no data. The entries of a
/// process without data count as missed.
fn meet(process: ProcessForReader<'_>, since: Timestamp, gone: &mut Tallies) -> Option<Watched> {
    let is_past = process.is_over && process.died.is_none_or(|died| died < since);
    if is_past {
        return None;
    }
    match process.remains {
        Remains::Pool(pool) => {
            let is_own = process.is_parent;
            Some(Watched::new(process.pid, process.name, is_own, pool))
        }
        Remains::Expired(counts) => {
            gone.missed = gone.missed.saturating_add(counts.recorded());
            None
        }
        Remains::Unprofiled(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn t9_a_panic_removes_the_mark_of_a_hushed_thread() {
        let quiet = Quiet::default();
        let panics = AssertUnwindSafe(|| {
            let _hushed = Hushed::new(&quiet);
            assert!(
                !lock(&quiet).contains(&profiler_core::thread::current()),
                "panics, because the thread is hushed"
            );
        });
        assert!(catch_unwind(panics).is_err(), "the thread was not hushed");
        assert!(lock(&quiet).is_empty());
    }
}
