//! The reader thread: one for all observers of a session, only while there is an observer.
//!
//! It sleeps until a pass is due ([`Pace`]). A pass reads what was added to the pools of all
//! processes, once for all observers. A new process is read from its beginning. A process that has
//! ended is read to its end and forgotten, within about a second whatever the periods of observers
//! are, because its pool stays open until then. The processes do not notice.
//!
//! A new observer gets what ends after it came. Spans that were open already are found by reading what
//! is still there of the past; only the first observer causes that read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use profiler_core::ids::{PoolId, ThreadId};
use profiler_core::time::{Anchor, Timestamp};

use super::event::BatchClock;
use super::process::{Pass, Watched};
use super::schedule::Pace;
use super::subscriber::{Subscriber, Tallies};
use crate::process_table::{Process, ProcessState, ProcessTable, Remains};
use crate::session_time::{SessionNs, SessionTime};

/// What a reader thread reads.
#[derive(Clone, Debug)]
pub(super) struct ObservedPools {
    pub(super) processes: Arc<ProcessTable>,
    pub(super) time: SessionTime,
}

/// A command to the reader thread.
#[derive(Debug)]
pub(super) enum Command {
    /// A new observer, which waits until the sender is dropped: from then on it gets everything.
    Attach(Box<Subscriber>, Sender<()>),
    /// An observer has left.
    Left,
}

/// Threads of this process that serve observers. What they record is not reported.
pub(super) type Quiet = Arc<Mutex<BTreeSet<ThreadId>>>;

/// Bytes of one process that a pass reads: a process with much data does not delay the others for long. It is much more
/// than an honest one records in a period; what is left is read next.
const BUDGET: u64 = 16 << 20;

/// The longest sleep, without observers.
const LONG: Duration = Duration::from_secs(3600);

/// The time now, on the clock of all batches.
pub(super) fn clock_now(time: SessionTime) -> BatchClock {
    let (clock, later) = (time.clock(), Anchor::take());
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
            Ok(Command::Left) => reader.forget_who_left(),
            Err(RecvTimeoutError::Timeout) => reader.serve(false),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    reader.forget_who_left();
    if !reader.subscribers.is_empty() {
        reader.serve(true);
    }
}

/// A thread that serves observers, while this is there: also when it panics its number is another's later.
#[derive(Debug)]
pub(super) struct Hushed<'a> {
    quiet: &'a Quiet,
    thread: ThreadId,
}

impl<'a> Hushed<'a> {
    /// What the calling thread records is not reported.
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
    watched: BTreeMap<PoolId, Watched>,
    /// Processes that are over and were read to their end.
    done: BTreeSet<PoolId>,
    /// What was lost of those.
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
            watched: BTreeMap::new(),
            done: BTreeSet::new(),
            gone: Tallies { missed: 0, orphans: 0, unreadable: 0 },
            passes: 0,
            pace: Pace::new(),
            next_span: 1,
        }
    }

    /// Time until a pass is due: for a batch whose time has come, for one that may be large by then, or for the roll.
    fn until_due(&mut self) -> Duration {
        let batch = self.subscribers.iter_mut().map(|one| one.schedule().due()).min();
        let by_size = self.subscribers.iter().any(Subscriber::wants_batches_by_size);
        batch.map(|due| due.min(self.pace.due(by_size))).map_or(LONG, |due| {
            let ns = due.0.saturating_sub(clock_now(self.pools.time).now.0);
            Duration::from_nanos(u64::try_from(ns).unwrap_or(0)).min(LONG)
        })
    }

    /// Reads all that was there when the observer came, so that what is read from then on is new.
    fn attach(&mut self, mut subscriber: Subscriber) {
        let since = subscriber.begin();
        self.subscribers.push(subscriber);
        self.read(since, u64::MAX);
        let tallies = self.tallies();
        if let Some(subscriber) = self.subscribers.last_mut() {
            subscriber.catch_up(tallies);
        }
    }

    fn forget_who_left(&mut self) {
        self.subscribers.retain(Subscriber::is_there);
    }

    /// Reads, and sends the batches that are due, or all.
    fn serve(&mut self, all: bool) {
        self.forget_who_left();
        let clock = self.read(Timestamp::ZERO, if all { u64::MAX } else { BUDGET });
        let tallies = self.tallies();
        let converter = self.pools.time.converter();
        for subscriber in &mut self.subscribers {
            if all || subscriber.schedule().is_due(clock.now) {
                let open = self.watched.values().flat_map(Watched::open);
                subscriber.look_at(open, converter, clock);
                subscriber.flush(tallies, clock);
                subscriber.schedule().step(clock.now);
            }
        }
    }

    /// Reads what was added to all pools, of each about so many bytes at most. Processes that ended before `since` are of
    /// no interest.
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
        for watched in self.watched.values_mut() {
            pass.budget = budget;
            if watched.is_over { watched.conclude(&mut pass) } else { watched.advance(&mut pass) }
        }
        let over = self.watched.extract_if(.., |_, watched| watched.is_over);
        for (key, watched) in over {
            self.gone = self.gone.plus(watched.tallies());
            self.done.insert(key);
        }
        self.pace.note(clock.now, clock_now(self.pools.time).now);
        clock
    }

    /// Finds processes that are new, and processes that are over.
    fn update_processes(&mut self, since: Timestamp) {
        let processes = Arc::clone(&self.pools.processes);
        let all = processes.lock();
        for (key, process) in all.iter() {
            if !self.done.contains(key) {
                self.meet(*key, process, since);
            }
        }
        for (_, watched) in self.watched.iter_mut().filter(|(key, _)| !all.contains_key(key)) {
            watched.is_over = true;
        }
        self.done.retain(|key| all.contains_key(key));
    }

    fn meet(&mut self, key: PoolId, process: &Process, since: Timestamp) {
        let has_ended = matches!(process.state, ProcessState::Exited(_));
        if let Some(watched) = self.watched.get_mut(&key) {
            watched.is_over = has_ended || !matches!(process.remains, Remains::Pool(_));
            return;
        }
        let is_past = has_ended && process.died.is_none_or(|died| died < since);
        match &process.remains {
            Remains::Pool(pool) if !is_past => {
                let is_own = process.state == ProcessState::Parent;
                let mut watched = Watched::new(process.pid, &process.name, is_own, pool);
                watched.is_over = has_ended;
                self.watched.insert(key, watched);
            }
            remains => {
                if let Remains::Expired(counts) = remains
                    && !is_past
                {
                    self.gone.missed = self.gone.missed.saturating_add(counts.recorded());
                }
                self.done.insert(key);
            }
        }
    }

    fn tallies(&self) -> Tallies {
        self.watched.values().fold(self.gone, |sum, watched| sum.plus(watched.tallies()))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn t9_a_thread_that_panics_is_not_hushed_any_more() {
        let quiet = Quiet::default();
        let panics = AssertUnwindSafe(|| {
            let _hushed = Hushed::new(&quiet);
            assert!(!lock(&quiet).contains(&profiler_core::thread::current()), "as it must");
        });
        assert!(catch_unwind(panics).is_err(), "it was hushed");
        assert!(lock(&quiet).is_empty());
    }
}
