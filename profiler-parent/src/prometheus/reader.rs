//! Reads the metrics of a session: at most once a second, and only on request.
//!
//! One per session, so that its own server, the live page and the application share the readings.
//! Called on the thread of a request. Invariants: a process is counted either by its pool or by the
//! sums of the session; two requests at the same time cause one reading.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_core::ids::PoolId;
use profiler_core::internal::entry_counts::EntryCounts;

use super::metrics::{Budget, Metrics, MetricsReading, PresentProcesses, ProcessRow, ScrapeCost};
#[cfg(feature = "http")]
use super::text_format::TextFormat;
use crate::controller::MemoryLimit;
use crate::groups::{GroupsSnapshot, ProcessGroups, ProcessStanding, SnapshotReader};
use crate::process_table::session_sums::{
    GroupKey, GroupSum, ProcessName, ProcessSum, SessionSums, Sum,
};
use crate::process_table::{ObservedProcess, ProcessActivity, ProcessTable};

/// The largest age of a reading that is used again, in nanoseconds: less than a second, so that one
/// request per second gets new numbers each time.
const FRESH: i64 = 900_000_000;
/// Nanoseconds after which a reading that no request has used is dropped.
const FORGET: i64 = 30_000_000_000;
/// Time after which reading groups skips the remaining pools.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Where the numbers come from.
#[derive(Debug)]
pub(crate) struct MetricsSources {
    pub(crate) processes: Arc<ProcessTable>,
    pub(crate) limit: Arc<MemoryLimit>,
    pub(crate) groups: Arc<SnapshotReader>,
}

/// The latest reading, with its time.
#[derive(Debug, Default)]
struct ReaderState {
    latest: Option<(i64, Arc<MetricsReading>)>,
    cost: ScrapeCost,
}

/// Reads the metrics. See the head of this file.
#[derive(Debug)]
pub(crate) struct MetricsReader {
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
    fn now(&self) -> i64 {
        self.sources.groups.time().now().0
    }

    /// The present numbers, or those of the latest reading if they are fresh.
    pub(crate) fn read(&self) -> Metrics {
        let mut state = self.lock();
        let now = self.now();
        state.cost.scrapes += 1;
        let fresh = state.latest.as_ref();
        let fresh = fresh.filter(|(at, _)| now.saturating_sub(*at) < FRESH);
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
        let cost = state.cost;
        Metrics { reading, cost }
    }

    /// The text for a scrape. The time that writing it takes is in later ones.
    #[cfg(feature = "http")]
    pub(crate) fn text(&self, format: TextFormat) -> String {
        let metrics = self.read();
        let start = self.now();
        let text = metrics.text(format);
        let took = self.now().saturating_sub(start);
        self.lock().cost.add_time(took);
        text
    }

    /// Drops a reading that is old.
    #[cfg_attr(not(feature = "http"), allow(dead_code))]
    pub(crate) fn tidy(&self) {
        let long_ago = self.now().saturating_sub(FORGET);
        self.lock().latest.take_if(|(at, _)| *at < long_ago);
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
        let snapshot = self.groups.recent_snapshot(TIMEOUT, FRESH / 2);
        let counts: HashMap<PoolId, EntryCounts> =
            self.processes.present_counts().into_iter().collect();
        // The processes are listed after their pools were read. A pool that is closed meanwhile is
        // in the sums then, and what was read of it is not used.
        let reading = self.processes.observe(|observed, sums| {
            let pools = ReadPools::of(&snapshot, &counts);
            pools.add_up(&observed, sums)
        });
        MetricsReading {
            session_start_unix_ns: snapshot.date_unix_ns.saturating_add_signed(-snapshot.at_ns),
            budget: Budget {
                limit: self.limit.now().get(),
                charged: self.limit.charged(),
                peak: self.limit.peak(),
            },
            ..reading
        }
    }
}

/// What was read of all pools.
struct ReadPools<'a> {
    groups: HashMap<PoolId, &'a ProcessGroups>,
    counts: &'a HashMap<PoolId, EntryCounts>,
    unread: u64,
}

impl<'a> ReadPools<'a> {
    fn of(snapshot: &'a GroupsSnapshot, counts: &'a HashMap<PoolId, EntryCounts>) -> Self {
        let groups = snapshot.processes.iter();
        Self {
            groups: groups.map(|process| (process.pool, process)).collect(),
            counts,
            unread: snapshot.missing.len() as u64,
        }
    }

    /// Adds the numbers of what is present to those of what is gone.
    fn add_up(&self, observed: &[ObservedProcess], sums: &mut SessionSums) -> MetricsReading {
        let lives: Vec<(&ProcessName, ProcessSum)> = observed
            .iter()
            .map(|process| (&process.name, self.sum_of(process)))
            .collect();
        let shown = sums
            .processes
            .show(lives.iter().map(|(key, sum)| (*key, sum)));
        let groups = self.groups_of(observed);
        let shown_groups = sums.groups.show(groups.iter().map(|(key, sum)| (key, sum)));
        let mut present = self.present(observed);
        let other = shown.other.map(|sum| (ProcessName::other(), sum));
        let mut processes: Vec<ProcessRow> = shown
            .own
            .into_iter()
            .chain(other)
            .map(|(key, sum)| ProcessRow {
                present: present.remove(&key).unwrap_or_default(),
                name: key.0,
                sum,
            })
            .collect();
        // What is left has names that have no row.
        if let Some(other) = processes.last_mut() {
            present.values().for_each(|more| other.present.add(more));
        }
        MetricsReading {
            processes,
            groups: shown_groups.own,
            other_groups: shown_groups.other,
            groups_in_other: shown_groups.rows_in_other,
            unread: self.unread,
            ..MetricsReading::default()
        }
    }

    fn sum_of(&self, process: &ObservedProcess) -> ProcessSum {
        let mut sum = process.life.clone();
        if let Some(counts) = self.counts.get(&process.key).filter(|_| process.is_read) {
            sum.add(&ProcessSum::of_present_counts(counts));
        }
        sum
    }

    /// The groups in all pools that are not closed. Those of the program come first, and of each
    /// rank those of the processes that have joined first.
    fn groups_of(&self, observed: &[ObservedProcess]) -> Vec<(GroupKey, GroupSum)> {
        let read = observed.iter().filter(|process| process.is_read);
        let pools = read.filter_map(|process| Some((process, self.groups.get(&process.key)?)));
        let mut groups: Vec<(GroupKey, GroupSum)> = pools
            .flat_map(|(process, pool)| {
                pool.groups.iter().map(|row| {
                    let key = GroupKey::new(&process.name.0, row.kind, &row.name);
                    (key, GroupSum::from(&row.totals))
                })
            })
            .collect();
        groups.sort_by_key(|(key, _)| key.rank()); // keeps the order of equal ranks
        groups
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
