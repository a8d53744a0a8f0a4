//! Snapshots of all data that the page shows: at most one per second, fewer if a snapshot is
//! expensive.
//!
//! Called by requests, on the server's thread. Invariants: nothing is read between requests; all
//! rows of a snapshot are from one moment, except that groups which the poller of alerts has just
//! read are not read again; the history of earlier snapshots is bounded, and dropped after a period
//! without requests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use profiler_core::time::Anchor;
use profiler_http::Query;
use serde::Serialize;

use super::counters::{CounterHistory, CounterRow};
use super::groups::{Table, merged_since, wants_lately};
use super::processes::{LiveProcessRow, ProcessHistory};
use crate::controller::MemoryLimit;
use crate::groups::{GroupsSnapshot, MergedGroup, SnapshotReader};
use crate::process_table::ProcessTable;

/// The maximum age of a snapshot, in nanoseconds: less than a second, so that one request per
/// second gets a new snapshot each time.
const FRESH: i64 = 900_000_000;
/// With many processes the interval is this factor times the cost of the last snapshot, so
/// snapshots use at most 0.5 % of a processor.
const COST_FACTOR: i64 = 200;
/// The upper bound of that interval.
const OLDEST: i64 = 1_900_000_000;
/// The time covered by recent totals.
const LATELY: i64 = 10_000_000_000;
/// Time between two kept snapshots of groups.
const STEP: i64 = 2_000_000_000;
/// Nanoseconds without a request after which the history is dropped.
const FORGET: i64 = 30_000_000_000;
/// Time after which reading groups skips the remaining pools.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The key figures of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SessionRow {
    /// The current time.
    at_ns: i64,
    /// The current wall time since the Unix epoch.
    date_unix_ns: u64,
    /// The memory limit of all processes together.
    memory_limit: u64,
    /// The size of their pools.
    held_bytes: u64,
    /// Listed processes, and how many of them are running.
    processes: usize,
    running: usize,
    /// Dead processes that are not listed any more.
    earlier_processes: u64,
    /// The deadlocks that were found so far, in words.
    deadlocks: Vec<String>,
}

/// All data at one moment.
#[derive(Debug)]
pub(super) struct LiveSnapshot {
    pub(super) session: SessionRow,
    pub(super) processes: Vec<LiveProcessRow>,
    pub(super) counters: Vec<CounterRow>,
    groups: Arc<GroupsSnapshot>,
    /// An earlier snapshot, to compute the recent increase.
    before: Arc<GroupsSnapshot>,
    merged: OnceLock<Vec<MergedGroup>>,
    lately: OnceLock<Vec<MergedGroup>>,
    /// The cost so far in nanoseconds, including every table made from the snapshot.
    cost: AtomicI64,
}

impl LiveSnapshot {
    /// Passes the requested rows of groups to `then`.
    pub(super) fn groups<T>(&self, query: &Query, then: impl FnOnce(&Table<'_>) -> T) -> T {
        if wants_lately(query) {
            let merged = self
                .lately
                .get_or_init(|| self.timed(|| merged_since(&self.groups, &self.before)));
            let interval = self.groups.at_ns.saturating_sub(self.before.at_ns);
            return then(&Table::new(&self.groups, interval, merged, query));
        }
        let merged = self
            .merged
            .get_or_init(|| self.timed(|| self.groups.merged()));
        then(&Table::new(&self.groups, self.groups.at_ns, merged, query))
    }

    /// Makes a table, and adds the time it takes to the cost of the snapshot.
    fn timed<T>(&self, make: impl FnOnce() -> T) -> T {
        let start = Anchor::take().monotonic;
        let made = make();
        let took = Anchor::take().monotonic.0.saturating_sub(start.0);
        self.cost
            .fetch_add(i64::try_from(took).unwrap_or(i64::MAX), Ordering::Relaxed);
        made
    }

    /// The maximum age of this snapshot.
    fn fresh(&self) -> i64 {
        fresh_for(self.cost.load(Ordering::Relaxed))
    }

    /// When it was taken, in nanoseconds since the session's start.
    pub(super) const fn at_ns(&self) -> i64 {
        self.session.at_ns
    }
}

/// Data kept between snapshots.
#[derive(Debug, Default)]
struct SnapshotHistory {
    latest: Option<Arc<LiveSnapshot>>,
    /// Oldest first.
    groups: VecDeque<Arc<GroupsSnapshot>>,
    processes: ProcessHistory,
    counters: CounterHistory,
}

/// The cache of snapshots. See the head of this file.
#[derive(Debug)]
pub(super) struct SnapshotCache {
    processes: Arc<ProcessTable>,
    limit: Arc<MemoryLimit>,
    groups: Arc<SnapshotReader>,
    history: Mutex<SnapshotHistory>,
}

impl SnapshotCache {
    pub(super) fn new(
        processes: Arc<ProcessTable>,
        limit: Arc<MemoryLimit>,
        groups: Arc<SnapshotReader>,
    ) -> Self {
        Self {
            processes,
            limit,
            groups,
            history: Mutex::default(),
        }
    }

    /// The current time, in nanoseconds since the session's start.
    pub(super) fn now(&self) -> i64 {
        self.groups.time().now().0
    }

    fn lock(&self) -> MutexGuard<'_, SnapshotHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the latest snapshot if it is fresh, otherwise a new one.
    pub(super) fn latest(&self) -> Arc<LiveSnapshot> {
        let now = self.now();
        let mut history = self.lock();
        let fresh = history
            .latest
            .as_ref()
            .map_or(FRESH, |snapshot| snapshot.fresh());
        if let Some(latest) = history
            .latest
            .as_ref()
            .filter(|snapshot| now.saturating_sub(snapshot.at_ns()) < fresh)
        {
            return Arc::clone(latest);
        }
        let groups = self.groups.recent_snapshot(TIMEOUT, fresh / 2);
        history.forget_before(now.saturating_sub(FORGET));
        let snapshot = Arc::new(history.take(&self.processes, &self.limit, groups));
        snapshot
            .cost
            .store(self.now().saturating_sub(now), Ordering::Relaxed);
        history.latest = Some(Arc::clone(&snapshot));
        snapshot
    }

    /// Drops the history if it is too old.
    pub(super) fn tidy(&self) {
        let long_ago = self.now().saturating_sub(FORGET);
        self.lock().forget_before(long_ago);
    }
}

/// The maximum age of a snapshot that took `took` nanoseconds.
fn fresh_for(took: i64) -> i64 {
    took.saturating_mul(COST_FACTOR).clamp(FRESH, OLDEST)
}

impl SnapshotHistory {
    fn forget_before(&mut self, time: i64) {
        if self
            .latest
            .as_ref()
            .is_some_and(|latest| latest.at_ns() < time)
        {
            *self = Self::default();
        }
    }

    fn take(
        &mut self,
        table: &ProcessTable,
        limit: &MemoryLimit,
        groups: Arc<GroupsSnapshot>,
    ) -> LiveSnapshot {
        let processes = self.processes.update(table, &groups);
        let counters = self.counters.update(&self.processes, &processes);
        let held_bytes = processes.iter().fold(0, |sum: u64, process| {
            sum.saturating_add(process.held_bytes)
        });
        let session = SessionRow {
            at_ns: groups.at_ns,
            date_unix_ns: groups.date_unix_ns,
            memory_limit: limit.now().get(),
            held_bytes,
            processes: processes.len(),
            running: processes.iter().filter(|process| process.runs).count(),
            earlier_processes: table.expired().processes,
            deadlocks: table.deadlocks().iter().map(ToString::to_string).collect(),
        };
        let before = self.remember(&groups);
        let merged = OnceLock::new();
        let lately = OnceLock::new();
        LiveSnapshot {
            session,
            processes,
            counters,
            groups,
            before,
            merged,
            lately,
            cost: AtomicI64::new(0),
        }
    }

    /// Stores the snapshot, and returns the one to compare it with: the latest that is old enough,
    /// otherwise the oldest.
    fn remember(&mut self, groups: &Arc<GroupsSnapshot>) -> Arc<GroupsSnapshot> {
        let age = |one: &Arc<GroupsSnapshot>| groups.at_ns.saturating_sub(one.at_ns);
        while self
            .groups
            .get(1)
            .is_some_and(|second| age(second) >= LATELY)
        {
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
        Arc::new(GroupsSnapshot {
            at_ns: seconds * 1_000_000_000,
            ..GroupsSnapshot::default()
        })
    }

    #[test]
    fn costly_snapshots_stay_fresh_for_longer() {
        assert_eq!(fresh_for(1_000_000), FRESH);
        assert_eq!(fresh_for(7_000_000), 1_400_000_000);
        assert_eq!(fresh_for(1_000_000_000), OLDEST);
    }

    #[test]
    fn l1_recent_totals_cover_ten_seconds_or_the_time_since_the_first_snapshot() {
        let mut history = SnapshotHistory::default();
        let ages: Vec<i64> = (100..=130)
            .map(|second| second - history.remember(&at(second)).at_ns / 1_000_000_000)
            .collect();
        assert_eq!(ages[..11], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert!(
            ages[11..].iter().all(|age| (10..12).contains(age)),
            "{ages:?}"
        );
        assert!(
            history.groups.len() <= 7,
            "few are kept: {}",
            history.groups.len()
        );
    }
}
