//! A look at everything, at most once a second and rarer where it costs much, whoever asks and however often.
//!
//! Called by requests, on the server's thread. Invariants: nothing is read between requests; all rows of one look are of one
//! moment, but that groups which the watch for alerts has just read are not read again; what is remembered of earlier looks is
//! bounded, and forgotten when nobody has asked for a while.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use profiler_core::time::{Anchor, Timestamp};
use serde::Serialize;

use super::counters::{CounterBook, CounterRow};
use super::groups::{Table, merged_since, wants_lately};
use super::processes::{ProcessBook, ProcessRow};
use super::query::Query;
use crate::groups::{GroupsSnapshot, MergedGroup};
use crate::supervisor::Shared;

/// How old a look may be, in nanoseconds: less than a second, so that who asks every second gets a new one.
const FRESH: i64 = 900_000_000;
/// Where there are many processes: so many times as long as it took, so that looks take half a hundredth of a processor.
const REST: i64 = 200;
/// But no older than this.
const OLDEST: i64 = 1_900_000_000;
/// What "lately" means.
const LATELY: i64 = 10_000_000_000;
/// Time between two looks that are remembered.
const STEP: i64 = 2_000_000_000;
/// After so long a pause, earlier looks say nothing of what was lately.
const FORGET: i64 = 30_000_000_000;
/// How long reading groups may take before no further pool is begun.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The session in a few numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SessionRow {
    /// Now.
    at_ns: i64,
    /// Now, in wall time since the Unix epoch.
    date_unix_ns: u64,
    /// What all processes together may hold.
    memory_limit: u64,
    /// What their pools occupy.
    held_bytes: u64,
    /// Processes that are told apart, and how many of them run.
    processes: usize,
    running: usize,
    /// Processes that ended so long ago that they are not told apart any more.
    earlier_processes: u64,
}

/// Everything at one moment.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) session: SessionRow,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) counters: Vec<CounterRow>,
    groups: Arc<GroupsSnapshot>,
    /// An earlier one, to say what was done since.
    before: Arc<GroupsSnapshot>,
    merged: OnceLock<Vec<MergedGroup>>,
    lately: OnceLock<Vec<MergedGroup>>,
    /// What it has cost until now, in nanoseconds: with every table that was made of it.
    cost: AtomicI64,
}

impl Look {
    /// Gives the rows of groups that are asked for to `then`.
    pub(super) fn groups<T>(&self, query: &Query, then: impl FnOnce(&Table<'_>) -> T) -> T {
        if wants_lately(query) {
            let merged = self.lately.get_or_init(|| self.timed(|| merged_since(&self.groups, &self.before)));
            let interval = self.groups.at_ns.saturating_sub(self.before.at_ns);
            return then(&Table::of(&self.groups, interval, merged, query));
        }
        let merged = self.merged.get_or_init(|| self.timed(|| self.groups.merged()));
        then(&Table::of(&self.groups, self.groups.at_ns, merged, query))
    }

    /// Makes a table, and adds what that takes to what the look costs.
    fn timed<T>(&self, make: impl FnOnce() -> T) -> T {
        let start = Anchor::take().monotonic;
        let made = make();
        let took = Anchor::take().monotonic.0.saturating_sub(start.0);
        self.cost.fetch_add(i64::try_from(took).unwrap_or(i64::MAX), Ordering::Relaxed);
        made
    }

    /// How old it may become.
    fn fresh(&self) -> i64 {
        fresh_for(self.cost.load(Ordering::Relaxed))
    }

    /// When it was taken, in nanoseconds since the session's start.
    pub(super) const fn at_ns(&self) -> i64 {
        self.session.at_ns
    }
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
struct Memory {
    look: Option<Arc<Look>>,
    /// Oldest first.
    groups: VecDeque<Arc<GroupsSnapshot>>,
    processes: ProcessBook,
    counters: CounterBook,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Desk {
    shared: Arc<Shared>,
    memory: Mutex<Memory>,
}

impl Desk {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, memory: Mutex::default() }
    }

    /// Now, in nanoseconds since the session's start.
    pub(super) fn now(&self) -> i64 {
        self.shared.clock.converter(Anchor::take()).since_start_ns(Timestamp::now())
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest look, or a new one.
    pub(super) fn look(&self) -> Arc<Look> {
        let now = self.now();
        let mut memory = self.memory();
        let fresh = memory.look.as_ref().map_or(FRESH, |look| look.fresh());
        if let Some(look) = memory.look.as_ref().filter(|look| now.saturating_sub(look.at_ns()) < fresh) {
            return Arc::clone(look);
        }
        let groups = crate::groups::lately(&self.shared, TIMEOUT, fresh / 2);
        memory.forget_before(now.saturating_sub(FORGET));
        let look = Arc::new(memory.look_at(&self.shared, groups));
        look.cost.store(self.now().saturating_sub(now), Ordering::Relaxed);
        memory.look = Some(Arc::clone(&look));
        look
    }

    /// Nobody has asked for a while: lets go of what would be of no use.
    pub(super) fn tidy(&self) {
        let long_ago = self.now().saturating_sub(FORGET);
        self.memory().forget_before(long_ago);
    }
}

/// How old a look may become that took so long.
fn fresh_for(took: i64) -> i64 {
    took.saturating_mul(REST).clamp(FRESH, OLDEST)
}

impl Memory {
    fn forget_before(&mut self, time: i64) {
        if self.look.as_ref().is_some_and(|look| look.at_ns() < time) {
            *self = Self::default();
        }
    }

    fn look_at(&mut self, shared: &Shared, groups: Arc<GroupsSnapshot>) -> Look {
        let processes = self.processes.look(shared, &groups);
        let counters = self.counters.look(&self.processes, &processes);
        let held_bytes = processes.iter().fold(0, |sum: u64, process| sum.saturating_add(process.held_bytes));
        let session = SessionRow {
            at_ns: groups.at_ns,
            date_unix_ns: groups.date_unix_ns,
            memory_limit: shared.limit.now().get(),
            held_bytes,
            processes: processes.len(),
            running: processes.iter().filter(|process| process.runs).count(),
            earlier_processes: shared.processes.earlier().processes,
        };
        let before = self.remember(&groups);
        let (merged, lately) = (OnceLock::new(), OnceLock::new());
        Look { session, processes, counters, groups, before, merged, lately, cost: AtomicI64::new(0) }
    }

    /// Remembers it, and finds the one to compare it with: the latest that is old enough, else the oldest there is.
    fn remember(&mut self, groups: &Arc<GroupsSnapshot>) -> Arc<GroupsSnapshot> {
        let age = |one: &Arc<GroupsSnapshot>| groups.at_ns.saturating_sub(one.at_ns);
        while self.groups.get(1).is_some_and(|second| age(second) >= LATELY) {
            self.groups.pop_front();
        }
        if self.groups.back().is_none_or(|last| age(last) >= STEP) {
            self.groups.push_back(Arc::clone(groups));
        }
        Arc::clone(self.groups.front().unwrap_or(groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Arc<GroupsSnapshot> {
        Arc::new(GroupsSnapshot { at_ns: seconds * 1_000_000_000, ..GroupsSnapshot::default() })
    }

    #[test]
    fn looks_are_rarer_where_they_cost_more() {
        assert_eq!(fresh_for(1_000_000), FRESH);
        assert_eq!(fresh_for(7_000_000), 1_400_000_000);
        assert_eq!(fresh_for(1_000_000_000), OLDEST);
    }

    #[test]
    fn l1_lately_is_the_last_ten_seconds_as_far_as_somebody_looked() {
        let mut memory = Memory::default();
        let ages: Vec<i64> =
            (100..=130).map(|second| second - memory.remember(&at(second)).at_ns / 1_000_000_000).collect();
        assert_eq!(ages[..11], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(ages[11..].iter().all(|age| (10..12).contains(age)), "{ages:?}");
        assert!(memory.groups.len() <= 7, "few are kept: {}", memory.groups.len());
    }
}
