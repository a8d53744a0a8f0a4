//! Reads the metrics of a session: at most once a second, and only on request.
//!
//! One per session, so that all services and the application share the readings.
//! Called on the thread of a request. Invariants: each process counts once; two requests at the
//! same time cause one reading; only requests wait for a reading.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_core::ids::PoolId;

use super::{Budget, MetricsReading, PresentProcesses, ProcessMetricsRow, ScrapeCost};
use crate::controller::MemoryLimit;
use crate::groups::{GroupsSnapshot, ProcessGroups, ProcessStanding, SnapshotReader};
use crate::process_table::session_sums::{
    BoundedSums, GroupKey, GroupSum, ProcessName, ProcessSum, SessionSums, Sum,
};
use crate::process_table::{ObservedProcess, PresentCounts, ProcessActivity, ProcessTable};
use crate::push_sums::PushSums;

/// The largest age of a reading that is used again, in nanoseconds: less than a second, so that one
/// request per second gets new numbers each time.
const LONGEST_REUSE_NS: i64 = 900_000_000;
/// Nanoseconds after which a reading that no request has used is dropped.
const FORGOTTEN_AFTER_NS: i64 = 30_000_000_000;
/// Time after which reading groups skips the remaining pools; the same for reading entry counts.
/// Pools in files may wait for the disk.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Where the numbers come from.
#[derive(Debug)]
pub(crate) struct MetricsSources {
    pub(crate) processes: Arc<ProcessTable>,
    pub(crate) limit: Arc<MemoryLimit>,
    pub(crate) groups: Arc<SnapshotReader>,
    pub(crate) pushers: Arc<PushSums>,
}

/// The latest reading, with its time.
#[derive(Debug, Default)]
struct ReaderState {
    latest: Option<(i64, Arc<MetricsReading>)>,
    cost: ScrapeCost,
}

/// Reads the metrics. See the head of this file.
#[derive(Debug)]
pub struct MetricsReader {
    sources: MetricsSources,
    state: Mutex<ReaderState>,
}

impl MetricsReader {
    pub(crate) fn new(sources: MetricsSources) -> Self {
        let state = Mutex::default();
        Self { sources, state }
    }

    fn lock(&self) -> MutexGuard<'_, ReaderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current time, in nanoseconds since the session's start.
    pub fn now(&self) -> i64 {
        self.sources.groups.time().now().0
    }

    /// The present numbers, or those of the latest reading if they are fresh.
    pub fn read(&self) -> (Arc<MetricsReading>, ScrapeCost) {
        let mut state = self.lock();
        let now = self.now();
        state.cost.scrapes += 1;
        let fresh = state.latest.as_ref();
        let fresh = fresh.filter(|(at, _)| now.saturating_sub(*at) < LONGEST_REUSE_NS);
        let reading = match fresh {
            Some((_, reading)) => Arc::clone(reading),
            None => {
                let reading = Arc::new(self.sources.read());
                state.latest = Some((now, Arc::clone(&reading)));
                state.cost.readings += 1;
                state.cost.add_time(self.now().saturating_sub(now));
                reading
            }
        };
        (reading, state.cost)
    }

    /// Adds the time that writing the text of a reading took. Later readings report it.
    pub fn add_writing_time(&self, since_ns: i64) {
        let took = self.now().saturating_sub(since_ns);
        self.lock().cost.add_time(took);
    }

    /// Drops a reading that is old. Does not wait for a request that reads the pools.
    pub fn tidy(&self) {
        let long_ago = self.now().saturating_sub(FORGOTTEN_AFTER_NS);
        if let Ok(mut state) = self.state.try_lock() {
            state.latest.take_if(|(at, _)| *at < long_ago);
        }
    }
}

impl ScrapeCost {
    fn add_time(&mut self, ns: i64) {
        let ns = u64::try_from(ns).unwrap_or(0);
        self.busy_ns = self.busy_ns.saturating_add(ns);
    }
}

impl MetricsSources {
    fn read(&self) -> MetricsReading {
        let snapshot = self.groups.recent_snapshot(TIMEOUT, LONGEST_REUSE_NS / 2);
        let converter = self.groups.time().converter();
        let timeout = u64::try_from(TIMEOUT.as_nanos()).unwrap_or(u64::MAX);
        let counts = self.processes.present_counts(converter.ticks_in(timeout));
        let pools = ReadPools::new(&snapshot, counts);
        // The processes are listed after their pools were read. What was read of a pool that is
        // closed meanwhile is not used, because its last numbers are in the sums, or will be.
        let reading = self
            .processes
            .observe(|observed, sums| pools.add_up(&observed, sums));
        MetricsReading {
            session_start_unix_ns: snapshot.date_unix_ns.saturating_add_signed(-snapshot.at_ns),
            budget: Budget {
                limit: self.limit.now().get(),
                charged: self.limit.charged(),
                peak: self.limit.peak(),
            },
            pushed: self.pushers.read(),
            ..reading
        }
    }
}

/// What was read of all pools.
pub(super) struct ReadPools<'a> {
    groups: HashMap<PoolId, &'a ProcessGroups>,
    /// The pools whose groups could not be read.
    missing: HashSet<PoolId>,
    counts: HashMap<PoolId, PresentCounts>,
}

impl<'a> ReadPools<'a> {
    pub(super) fn new(
        snapshot: &'a GroupsSnapshot,
        counts: impl IntoIterator<Item = (PoolId, PresentCounts)>,
    ) -> Self {
        let groups = snapshot.processes.iter();
        Self {
            groups: groups.map(|process| (process.pool, process)).collect(),
            missing: snapshot.missing.iter().map(|one| one.pool).collect(),
            counts: counts.into_iter().collect(),
        }
    }

    /// Adds what was read of the present processes to the sums, and returns all numbers.
    pub(super) fn add_up(
        &self,
        observed: &[ObservedProcess],
        sums: &mut SessionSums,
    ) -> MetricsReading {
        let groups_in_other = self.add_groups(observed, &mut sums.groups);
        let groups = sums.groups.show();
        let is_unread = |one: &&ObservedProcess| one.is_read && self.missing.contains(&one.key);
        MetricsReading {
            processes: self.process_rows(observed, &mut sums.processes),
            groups: groups.own,
            other_groups: groups.other,
            groups_in_other,
            unread: observed.iter().filter(is_unread).count() as u64,
            ..MetricsReading::default()
        }
    }

    fn process_rows(
        &self,
        observed: &[ObservedProcess],
        sums: &mut BoundedSums<PoolId, ProcessName, ProcessSum>,
    ) -> Vec<ProcessMetricsRow> {
        // The name of a process that has not started may change, so it gets no series.
        for process in observed.iter().filter(|one| one.life.starts > 0) {
            sums.read(&process.key, [(&process.name, &self.sum_of(process))]);
        }
        let mut present = self.present(observed);
        let shown = sums.show();
        let mut row = |(key, sum): (ProcessName, ProcessSum)| ProcessMetricsRow {
            present: present.remove(&key).unwrap_or_default(),
            name: key.0,
            sum,
        };
        let mut rows: Vec<ProcessMetricsRow> = shown.own.into_iter().map(&mut row).collect();
        // What is left has names that have no row.
        let mut rest = PresentProcesses::default();
        present.values().for_each(|more| rest.add(more));
        if !present.is_empty() {
            sums.show_other(); // also when none is left, so that the series stays
        }
        if !present.is_empty() || shown.other.is_some() {
            rows.push(ProcessMetricsRow {
                name: ProcessName::other().0,
                sum: shown.other.unwrap_or_default(),
                present: rest,
            });
        }
        rows
    }

    fn sum_of(&self, process: &ObservedProcess) -> ProcessSum {
        let mut sum = process.life.clone();
        if let Some(read) = self.counts.get(&process.key).filter(|_| process.is_read) {
            sum.add(&match read.has_ended {
                true => ProcessSum::of_counts(&read.counts),
                false => ProcessSum::of_present_counts(&read.counts),
            });
        }
        sum
    }

    /// Adds the groups in all pools that are not closed. Those of the program get series first, and
    /// of each rank those of the processes that have joined first. Returns the number of groups
    /// without series of their own.
    fn add_groups(
        &self,
        observed: &[ObservedProcess],
        sums: &mut BoundedSums<PoolId, GroupKey, GroupSum>,
    ) -> u64 {
        let read = observed.iter().filter(|process| process.is_read);
        let pools = read.filter_map(|process| Some((process, self.groups.get(&process.key)?)));
        let pools: Vec<(PoolId, Vec<(GroupKey, GroupSum)>)> = pools
            .map(|(process, pool)| (process.key, rows_of(process, pool)))
            .collect();
        let rows = pools.iter().flat_map(|(_, rows)| rows);
        let mut keys: Vec<&GroupKey> = rows.map(|(key, _)| key).collect();
        keys.sort_by_key(|key| key.rank()); // keeps the order of equal ranks
        sums.give_places(keys);
        let in_other = pools.iter().map(|(pool, rows)| {
            let rows = rows.iter().map(|(key, sum)| (key, sum));
            sums.read(pool, rows)
        });
        in_other.sum()
    }

    fn present(&self, observed: &[ObservedProcess]) -> BTreeMap<ProcessName, PresentProcesses> {
        let mut present = BTreeMap::<ProcessName, PresentProcesses>::new();
        for process in observed {
            let pool = self.groups.get(&process.key);
            let row = present.entry(process.name.clone()).or_default();
            row.add(&PresentProcesses::of(process, pool.copied()));
        }
        present
    }
}

/// The groups of a process.
fn rows_of(process: &ObservedProcess, pool: &ProcessGroups) -> Vec<(GroupKey, GroupSum)> {
    let rows = pool.groups.iter();
    rows.map(|row| {
        let key = GroupKey::new(&process.name.0, row.kind, &row.name);
        (key, GroupSum::from(&row.totals))
    })
    .collect()
}

impl PresentProcesses {
    fn of(process: &ObservedProcess, pool: Option<&ProcessGroups>) -> Self {
        let is_stopped = pool.is_some_and(|pool| pool.standing == ProcessStanding::Frozen);
        let activity = match process.activity {
            Some(ProcessActivity::Recording) if is_stopped => Some(ProcessActivity::Stopped),
            activity => activity,
        };
        let number = |(one, _)| u64::from(Some(one) == activity);
        Self {
            by_activity: ProcessActivity::ALL.map(number),
            memory: process.memory,
            left_out: pool.map_or(0, |pool| pool.left_out),
        }
    }

    fn add(&mut self, other: &Self) {
        let numbers = self.by_activity.iter_mut().zip(other.by_activity);
        numbers.for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.memory.add(other.memory);
        self.left_out = self.left_out.saturating_add(other.left_out);
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod reader_tests;

#[cfg(test)]
mod tests {
    use profiler_core::ids::ByteLimit;
    use test_support::patience::LONG;

    use super::*;
    use crate::session_time::SessionTime;

    fn reader() -> MetricsReader {
        let processes = Arc::<ProcessTable>::default();
        let limit = ByteLimit::new(1 << 20);
        let time = SessionTime::start_now();
        let groups = SnapshotReader::new(Arc::clone(&processes), time);
        MetricsReader::new(MetricsSources {
            processes,
            limit: Arc::new(MemoryLimit::new(limit, limit)),
            groups: Arc::new(groups),
            pushers: Arc::default(),
        })
    }

    #[test]
    fn tidying_does_not_wait_for_a_reading() {
        let reader = Arc::new(reader());
        let _reading = reader.lock();
        let (done, is_done) = crossbeam_channel::bounded(1);
        let tidying = Arc::clone(&reader);
        let thread = std::thread::Builder::new().spawn(move || {
            tidying.tidy();
            done.send(()).unwrap();
        });
        drop(thread.unwrap());
        assert_eq!(is_done.recv_timeout(LONG), Ok(()), "it waits");
    }

    #[test]
    fn only_an_old_reading_is_dropped() {
        let reader = reader();
        reader.read();
        reader.tidy();
        assert!(reader.lock().latest.is_some());
        if let Some((at, _)) = &mut reader.lock().latest {
            *at -= FORGOTTEN_AFTER_NS + 1;
        }
        reader.tidy();
        assert!(reader.lock().latest.is_none());
    }
}
