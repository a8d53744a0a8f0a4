//! Decides which slow runs of groups raise alerts: a pure state machine without a clock of its own.
//!
//! The poller passes in the latest slow runs of every group. The machine returns the alerts of a
//! collection when its period is over, the most janky group first. Invariants:
//!
//! - A run is in at most one collection, and a group is in each collection at most once.
//! - Alerts that are withheld are counted.
//! - A process that is missing from a poll, because it was not read in time, loses no state.
//! - Of a group that is gone, only the time of its last alert is kept for long.
//! - The memory is bounded, even if a process invents groups.

use std::collections::BTreeMap;

use serde::Serialize;

use super::SlowRun;
use super::rules::AlertRules;
use crate::session_time::SessionNs;

/// The largest number of groups in one collection.
const MAX_PENDING: usize = 4096;
/// The largest number of groups of one process in a collection, so that a process that invents
/// groups does not crowd out the others.
const MAX_OF_PROCESS: usize = 512;
/// The largest number of groups whose last alert is remembered.
const MAX_REMEMBERED: usize = 4096;
/// How long a group that polls do not show stays known. Longer than the time between two reads of a
/// process that is expensive to read.
const ABSENT_NS: i64 = 10_000_000_000;
/// The largest number of known groups of one process that polls do not show: as many groups as an
/// honest process can have.
const MAX_ABSENT: usize = 4096;
/// The largest number of remembered processes.
const MAX_PROCESSES: usize = 8192;

/// A run of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) ended: SessionNs,
    pub(super) duration_ns: u64,
}

/// Maximum number of runs in an alert, the longest first to be kept.
const MAX_RUNS: usize = 16;

/// The result of a poll for one group. `K` identifies groups, `P` processes.
#[derive(Clone, Debug)]
pub(super) struct GroupPeaks<K, P> {
    pub(super) id: K,
    pub(super) process: P,
    pub(super) kind: String,
    pub(super) name: String,
    /// The longest of its latest runs. Runs that the previous poll also showed are the same runs.
    pub(super) runs: Vec<Run>,
    /// Names of the threads of these runs, by the end of the run, as far as they are known.
    pub(super) threads: BTreeMap<SessionNs, String>,
    /// Its total waiting time.
    pub(super) blocking_ns: u64,
}

/// An alert before the poller adds the name of its process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft<K> {
    pub(super) id: K,
    pub(super) kind: String,
    pub(super) name: String,
    /// Its longest run since the previous alert.
    pub(super) highest_ns: u64,
    /// The number of observed runs that were too long.
    pub(super) runs: u64,
    /// The longest of these runs, in the order of their ends.
    pub(super) slow_runs: Vec<SlowRun>,
    /// Its waiting time since the previous alert.
    pub(super) blocking_ns: u64,
    /// When the first of those runs began.
    pub(super) from: SessionNs,
    /// When the last of them ended.
    pub(super) to: SessionNs,
}

impl<K> Draft<K> {
    /// Keeps a run, or the longest ones if there are too many.
    fn note_run(&mut self, run: SlowRun) {
        let place = self.slow_runs.partition_point(|known| known.to <= run.to);
        self.slow_runs.insert(place, run);
        if self.slow_runs.len() > MAX_RUNS {
            let shortest = (0..self.slow_runs.len())
                .min_by_key(|place| self.slow_runs.get(*place).map(SlowRun::duration_ns));
            if let Some(shortest) = shortest {
                self.slow_runs.remove(shortest);
            }
        }
    }
}

/// Alerts that were withheld, by the rule that withheld them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SuppressedAlerts {
    /// Slow runs of processes that had just been seen for the first time.
    pub warm_up: u64,
    /// Alerts in collections with too many groups.
    pub at_once: u64,
    /// Alerts for groups that had another alert a short time before.
    pub repeat: u64,
    /// Slow runs of groups for which a collection had no room: it holds 512 groups per process, and
    /// 4096 in total.
    pub crowded: u64,
    /// Alerts that were dropped because the listeners or the evidence of earlier alerts took too
    /// long.
    pub unheard: u64,
    /// Polls, or files of evidence, that were abandoned because of a panic: a bug in the profiler.
    pub panics: u64,
}

/// The known state of a group.
#[derive(Clone, Debug)]
struct KnownGroup<P> {
    process: P,
    runs: Vec<Run>,
    /// Its total waiting time at the previous alert.
    blocking_ns: u64,
    /// The last poll that showed it.
    seen: SessionNs,
}

/// When polls showed a process.
#[derive(Clone, Copy, Debug)]
struct Presence {
    first: SessionNs,
    last: SessionNs,
    /// The last poll that showed it before the latest one, if that was not the previous poll.
    away_since: Option<SessionNs>,
}

impl Presence {
    /// Notes that it is present now. `before` is the time of the previous poll.
    fn note(&mut self, now: SessionNs, before: SessionNs) {
        if self.last != now {
            self.away_since = Some(self.last).filter(|last| *last < before);
            self.last = now;
        }
    }
}

/// The state machine. See the head of this file.
#[derive(Debug)]
pub(super) struct Machine<K, P> {
    rules: AlertRules,
    /// Runs that ended earlier raise no alert.
    since: SessionNs,
    groups: BTreeMap<K, KnownGroup<P>>,
    processes: BTreeMap<P, Presence>,
    pending: BTreeMap<K, (Draft<K>, u64)>,
    /// The number of pending groups per process.
    pending_of: BTreeMap<P, usize>,
    due: Option<SessionNs>,
    last: BTreeMap<(String, String), SessionNs>,
    /// The time of the previous poll.
    before: SessionNs,
    withheld: SuppressedAlerts,
}

impl<K: Ord + Clone, P: Ord + Clone> Machine<K, P> {
    /// Creates a machine that ignores runs which ended before `since`.
    pub(super) const fn new(rules: AlertRules, since: SessionNs) -> Self {
        Self {
            rules,
            since,
            groups: BTreeMap::new(),
            processes: BTreeMap::new(),
            pending: BTreeMap::new(),
            pending_of: BTreeMap::new(),
            due: None,
            last: BTreeMap::new(),
            before: since,
            withheld: SuppressedAlerts {
                warm_up: 0,
                at_once: 0,
                repeat: 0,
                crowded: 0,
                unheard: 0,
                panics: 0,
            },
        }
    }

    pub(super) const fn withheld(&self) -> SuppressedAlerts {
        self.withheld
    }

    /// Notes the present processes, including those without groups. Called before each poll.
    pub(super) fn meet(&mut self, now: SessionNs, processes: impl IntoIterator<Item = P>) {
        for process in processes {
            self.note(now, process);
        }
    }

    fn note(&mut self, now: SessionNs, process: P) -> Presence {
        let new = Presence {
            first: now,
            last: now,
            away_since: None,
        };
        let presence = self.processes.entry(process).or_insert(new);
        presence.note(now, self.before);
        *presence
    }

    /// Processes a poll: the current state of all groups. Returns the alerts of a collection whose
    /// period is over, the most janky group first.
    pub(super) fn poll(
        &mut self,
        now: SessionNs,
        all: impl IntoIterator<Item = GroupPeaks<K, P>>,
    ) -> Vec<Draft<K>> {
        for peaks in all {
            self.take(now, peaks);
        }
        self.forget_absent(now);
        self.before = now;
        if self.due.is_none_or(|due| now < due) {
            Vec::new()
        } else {
            self.close(now)
        }
    }

    fn take(&mut self, now: SessionNs, peaks: GroupPeaks<K, P>) {
        let process = self.note(now, peaks.process.clone());
        let since = self.since;
        let warm_up_ns = self.rules.warm_up_ns;
        let warm = process.first.0.saturating_add(warm_up_ns);
        let is_warm = |run: &Run| warm_up_ns == 0 || run.ended.0 >= warm;
        let threshold = self.rules.threshold_for(&peaks.kind, &peaks.name);
        let is_slow = |run: &Run| {
            run.ended >= since && threshold.is_some_and(|threshold| run.duration_ns >= threshold)
        };
        let fresh = self
            .fresh_runs(now, process, &peaks)
            .into_iter()
            .filter(is_slow);
        let (slow, cold): (Vec<Run>, Vec<Run>) = fresh.partition(is_warm);
        self.withheld.warm_up = self.withheld.warm_up.saturating_add(cold.len() as u64);
        slow.into_iter().for_each(|run| self.pend(now, &peaks, run));
        if let Some((_, blocking_ns)) = self.pending.get_mut(&peaks.id) {
            *blocking_ns = peaks.blocking_ns;
        }
    }

    /// Notes the runs of a group. Returns the runs that it did not show before.
    fn fresh_runs(
        &mut self,
        now: SessionNs,
        process: Presence,
        peaks: &GroupPeaks<K, P>,
    ) -> Vec<Run> {
        let runs = peaks.runs.clone();
        if let Some(known) = self.groups.get_mut(&peaks.id) {
            known.seen = now;
            let before = std::mem::replace(&mut known.runs, runs);
            return peaks
                .runs
                .iter()
                .filter(|run| !before.contains(run))
                .copied()
                .collect();
        }
        // Waiting time does not count if it is from before the first poll, or from before the group
        // was forgotten because its process was away for long.
        let is_older = now <= self.since || process.away_since.is_some();
        let blocking_ns = if is_older { peaks.blocking_ns } else { 0 };
        let known = KnownGroup {
            process: peaks.process.clone(),
            runs,
            blocking_ns,
            seen: now,
        };
        self.groups.insert(peaks.id.clone(), known);
        let is_fresh = |run: &&Run| process.away_since.is_none_or(|since| run.ended > since);
        peaks.runs.iter().filter(is_fresh).copied().collect()
    }

    /// Forgets groups and processes that are gone. Keeps groups that only one poll did not show, no
    /// matter how long ago the previous poll was.
    fn forget_absent(&mut self, now: SessionNs) {
        let horizon = self.before.min(SessionNs(now.0.saturating_sub(ABSENT_NS)));
        let mut absent: BTreeMap<P, usize> = BTreeMap::new();
        self.groups.retain(|_, known| {
            if known.seen == now {
                return true;
            }
            let has_data = !known.runs.is_empty() || known.blocking_ns > 0;
            if known.seen < horizon || !has_data {
                return false;
            }
            let count = absent.entry(known.process.clone()).or_default();
            *count += 1;
            *count <= MAX_ABSENT
        });
        if self.processes.len() > MAX_PROCESSES {
            self.processes.retain(|_, presence| presence.last == now);
        }
    }

    /// Whether the collection has room for this group. Reserves the room for a new group.
    fn has_room(&mut self, peaks: &GroupPeaks<K, P>) -> bool {
        if self.pending.contains_key(&peaks.id) {
            return true;
        }
        let all = self.pending.len();
        let of_process = self.pending_of.entry(peaks.process.clone()).or_default();
        let has_room = all < MAX_PENDING && *of_process < MAX_OF_PROCESS;
        *of_process += usize::from(has_room);
        has_room
    }

    fn pend(&mut self, now: SessionNs, peaks: &GroupPeaks<K, P>, run: Run) {
        if !self.has_room(peaks) {
            self.withheld.crowded = self.withheld.crowded.saturating_add(1);
            return;
        }
        let began =
            i64::try_from(run.duration_ns).map_or(i64::MIN, |ns| run.ended.0.saturating_sub(ns));
        let began = SessionNs(began);
        let first = || Draft {
            id: peaks.id.clone(),
            kind: peaks.kind.clone(),
            name: peaks.name.clone(),
            highest_ns: 0,
            runs: 0,
            slow_runs: Vec::new(),
            blocking_ns: 0,
            from: began,
            to: run.ended,
        };
        let (draft, _) = self
            .pending
            .entry(peaks.id.clone())
            .or_insert_with(|| (first(), peaks.blocking_ns));
        draft.highest_ns = draft.highest_ns.max(run.duration_ns);
        draft.runs += 1;
        draft.note_run(SlowRun {
            from: began,
            to: run.ended,
            thread: peaks.threads.get(&run.ended).cloned(),
        });
        draft.from = draft.from.min(began);
        draft.to = draft.to.max(run.ended);
        let due = SessionNs(now.0.saturating_add(self.rules.buffering_ns));
        self.due.get_or_insert(due);
    }

    /// Ends the collection.
    fn close(&mut self, now: SessionNs) -> Vec<Draft<K>> {
        self.due = None;
        let pending = std::mem::take(&mut self.pending);
        self.pending_of.clear();
        let is_too_many = pending.len() > self.rules.at_once;
        let mut alerts = Vec::new();
        for (id, (draft, blocking_ns)) in pending {
            if is_too_many {
                self.withheld.at_once += 1;
                continue;
            }
            let key = (draft.kind.clone(), draft.name.clone());
            // Several processes may have such a group; alerts of one collection are not repeats.
            let last = self.last.get(&key).copied().filter(|last| *last != now);
            let again = |last: SessionNs| last.0.saturating_add(self.rules.repeat_ns);
            if last.is_some_and(|last| now.0 < again(last)) {
                self.withheld.repeat += 1;
                continue;
            }
            self.last.insert(key, now);
            let known = self.groups.get_mut(&id);
            let before = known.map_or(0, |known| {
                std::mem::replace(&mut known.blocking_ns, blocking_ns)
            });
            alerts.push(Draft {
                blocking_ns: blocking_ns.saturating_sub(before),
                ..draft
            });
        }
        let repeat_ns = self.rules.repeat_ns;
        self.last
            .retain(|_, last| now.0 < last.0.saturating_add(repeat_ns));
        self.forget_the_oldest();
        alerts.sort_by(|a, b| {
            b.highest_ns
                .cmp(&a.highest_ns)
                .then_with(|| a.id.cmp(&b.id))
        });
        alerts
    }

    /// Limits the remembered groups to [`MAX_REMEMBERED`]. Forgets the oldest first, because
    /// groups whose names change all the time never return.
    fn forget_the_oldest(&mut self) {
        let surplus = self.last.len().saturating_sub(MAX_REMEMBERED);
        if surplus > 0 {
            let mut times: Vec<SessionNs> = self.last.values().copied().collect();
            let (older, newest, _) = times.select_nth_unstable(surplus - 1);
            let newest = *newest;
            // Entries of the same time are removed in the order of their names, as many as
            // necessary.
            let mut left = surplus - older.iter().filter(|last| **last < newest).count();
            self.last.retain(|_, last| {
                let is_surplus = *last == newest && left > 0;
                left -= usize::from(is_surplus);
                *last >= newest && !is_surplus
            });
        }
    }
}

#[cfg(test)]
mod tests;
