//! The poller: a thread that reads all groups several times a second, feeds the state machine, and
//! passes alerts to the dispatcher.
//!
//! The dispatcher ([`super::dispatcher`]) does the slow work, evidence and callbacks, so the poller
//! is on time. Invariants: the poller never waits for the dispatcher; alerts for which the
//! dispatcher has no room are counted; a panic costs one poll.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, select};
use profiler_core::groups::GroupKind;
use profiler_core::ids::{PoolId, ProcessId};

use super::Alert;
use super::deadlocks::DeadlockListener;
use super::listeners::Listeners;
use super::machine::{Draft, GroupPeaks, Machine, Run, SuppressedAlerts};
use super::rules::AlertRules;
use crate::groups::{GroupId, GroupsSnapshot, SnapshotReader};
use crate::process_table::{Deadlock, ProcessTable};
use crate::session_time::SessionNs;

/// The shortest interval, used while polls are cheap. Peaks are kept for about five seconds: a run
/// is missed only if a poll takes longer than that.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(200);
/// With many processes the interval is this factor times the cost of the last poll, so polls use at
/// most a third of a percent of a processor.
const COST_FACTOR: u32 = 300;
/// The longest interval.
const LONGEST_INTERVAL: Duration = Duration::from_secs(3);
/// How long a poll may take before it reads no further pool.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The thread ends after this many panics.
const MAX_PANICS: u32 = 10;

/// The signals that end both threads: one of them is disconnected, by the application or at the
/// session's end.
#[derive(Clone, Debug)]
pub(super) struct StopSignals(pub(super) [Receiver<()>; 2]);

impl StopSignals {
    /// Whether the threads must end.
    pub(super) fn is_over(&self) -> bool {
        self.0
            .iter()
            .any(|end| end.try_recv() != Err(TryRecvError::Empty))
    }
}

/// What one poll has found.
#[derive(Debug)]
pub(super) enum Finding {
    /// Groups that were too slow.
    Alerts(Vec<Alert>),
    /// Deadlocks that were not reported yet.
    Deadlocks(Vec<Deadlock>),
}

/// Alerts that were withheld, by reason.
#[derive(Clone, Debug, Default)]
pub(super) struct WithheldCounts(Arc<Mutex<SuppressedAlerts>>);

impl WithheldCounts {
    pub(super) fn now(&self) -> SuppressedAlerts {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut SuppressedAlerts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Runs code that may panic. Returns whether it did not panic.
    pub(super) fn guard(&self, body: impl FnOnce()) -> bool {
        let ended_well = catch_unwind(AssertUnwindSafe(body)).is_ok();
        self.change(|counts| counts.panics += u64::from(!ended_well));
        ended_well
    }

    /// Counts a panic of a listener.
    pub(super) fn count_panic(&self) {
        self.change(|counts| counts.panics += 1);
    }

    /// Passes alerts to the dispatcher, if its queue has room for them.
    fn hand_over(&self, alerts: Vec<Alert>, dispatch: &Sender<Finding>) {
        let lost = alerts.len() as u64;
        if dispatch.try_send(Finding::Alerts(alerts)).is_err() {
            self.change(|counts| counts.unheard = counts.unheard.saturating_add(lost));
        }
    }
}

/// The state of the poller's thread.
pub(super) struct Poller {
    pub(super) groups: Arc<SnapshotReader>,
    pub(super) processes: Arc<ProcessTable>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) deadlocks: Arc<DeadlockListener>,
    pub(super) counts: WithheldCounts,
    pub(super) signals: StopSignals,
    pub(super) dispatch: Sender<Finding>,
}

impl Poller {
    pub(super) fn run(self, rules: &AlertRules) {
        let mut machine = None;
        let mut panics = 0;
        let mut interval = SHORTEST_INTERVAL;
        // The latest snapshot, kept so that the live page can use it.
        let mut latest = None;
        let mut next_deadlock = 0;
        while panics < MAX_PANICS {
            let begun = self.now();
            let before = latest.take();
            let ended_well = self.counts.guard(|| {
                let snapshot = self.snapshot(interval, before);
                self.process(&snapshot, rules, &mut machine);
                latest = Some(snapshot);
                self.pass_on_deadlocks(&mut next_deadlock);
            });
            panics += u32::from(!ended_well);
            // A snapshot that another caller took does not show the cost of a poll.
            if latest
                .as_ref()
                .is_none_or(|snapshot| snapshot.at_ns >= begun.0)
            {
                interval = interval_after(self.since(begun));
            }
            let [stopped, over] = &self.signals.0;
            select! {
                recv(stopped) -> _ => return,
                recv(over) -> _ => return,
                default(interval) => {}
            }
        }
    }

    /// Sends the deadlocks from index `next` on to the dispatcher. If its queue is full, the next
    /// poll sends them.
    fn pass_on_deadlocks(&self, next: &mut usize) {
        let before = *next;
        let deadlocks = self.deadlocks.new_deadlocks(&self.processes, next);
        let is_sent = deadlocks.is_empty()
            || self
                .dispatch
                .try_send(Finding::Deadlocks(deadlocks))
                .is_ok();
        if !is_sent {
            *next = before;
        }
    }

    /// Returns the current state of all groups, or a snapshot that another caller took less than
    /// half an interval ago.
    fn snapshot(
        &self,
        interval: Duration,
        before: Option<Arc<GroupsSnapshot>>,
    ) -> Arc<GroupsSnapshot> {
        drop(before); // so that the cache does not return it
        let age = i64::try_from(interval.as_nanos() / 2).unwrap_or(0);
        self.groups.recent_snapshot(TIMEOUT, age)
    }

    /// Passes a snapshot to the machine, and its alerts to the dispatcher.
    fn process(
        &self,
        snapshot: &GroupsSnapshot,
        rules: &AlertRules,
        machine: &mut Option<Machine<GroupId, PoolId>>,
    ) {
        let now = SessionNs(snapshot.at_ns);
        let machine = machine.get_or_insert_with(|| Machine::new(rules.clone(), now));
        machine.meet(now, snapshot.processes.iter().map(|process| process.pool));
        let drafts = machine.poll(now, peaks(snapshot));
        let withheld = machine.withheld();
        self.counts.change(|counts| {
            *counts = SuppressedAlerts {
                unheard: counts.unheard,
                panics: counts.panics,
                ..withheld
            };
        });
        if !drafts.is_empty() && !self.listeners.is_empty() {
            self.counts
                .hand_over(alerts(drafts, snapshot), &self.dispatch);
        }
    }

    fn now(&self) -> SessionNs {
        self.groups.time().now()
    }

    fn since(&self, begun: SessionNs) -> Duration {
        Duration::from_nanos(u64::try_from(self.now().0.saturating_sub(begun.0)).unwrap_or(0))
    }
}

/// The time to wait after a poll that took `took`.
fn interval_after(took: Duration) -> Duration {
    took.saturating_mul(COST_FACTOR)
        .clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL)
}

fn peaks(snapshot: &GroupsSnapshot) -> impl Iterator<Item = GroupPeaks<GroupId, PoolId>> + '_ {
    let threads = threads_of_runs(snapshot);
    snapshot.rows().map(move |(process, row)| {
        let peaks = row.totals.peaks.iter();
        let runs: Vec<Run> = peaks
            .map(|peak| run(peak.ended_ns, peak.duration_ns))
            .collect();
        let thread = |run: &Run| {
            let name = threads.get(&(process.pool, run.ended))?;
            Some((run.ended, (*name).to_owned()))
        };
        GroupPeaks {
            id: row.id,
            process: process.pool,
            kind: row.kind.name().to_owned(),
            name: row.name.clone(),
            threads: runs.iter().filter_map(thread).collect(),
            runs,
            blocking_ns: row.totals.blocking_ns,
        }
    })
}

/// The names of the threads in which runs ended, by process and time. The runs of all groups of one
/// iteration end at the same instant, and the group of the thread is one of them.
fn threads_of_runs(snapshot: &GroupsSnapshot) -> BTreeMap<(PoolId, SessionNs), &str> {
    let of_threads = snapshot
        .rows()
        .filter(|(_, row)| row.kind == GroupKind::Thread);
    of_threads
        .flat_map(|(process, row)| {
            let ends = row
                .totals
                .peaks
                .iter()
                .map(|peak| run(peak.ended_ns, 0).ended);
            ends.map(move |ended| ((process.pool, ended), row.name.as_str()))
        })
        .collect()
}

fn run(ended_ns: u64, duration_ns: u64) -> Run {
    Run {
        ended: SessionNs(i64::try_from(ended_ns).unwrap_or(i64::MAX)),
        duration_ns,
    }
}

fn alerts(drafts: Vec<Draft<GroupId>>, snapshot: &GroupsSnapshot) -> Vec<Alert> {
    let names: BTreeMap<PoolId, (ProcessId, &str)> = snapshot
        .processes
        .iter()
        .map(|process| (process.pool, (process.pid, process.name.as_str())))
        .collect();
    let alert = |draft: Draft<GroupId>| {
        let (process, name) = names
            .get(&draft.id.pool)
            .copied()
            .unwrap_or((ProcessId::new(0), ""));
        Alert {
            group: draft.name,
            kind: draft.kind,
            id: draft.id,
            process,
            process_name: name.to_owned(),
            highest_ns: draft.highest_ns,
            runs: draft.runs,
            slow_runs: draft.slow_runs,
            blocking_ns: draft.blocking_ns,
            from: draft.from,
            to: draft.to,
            evidence: None,
            evidence_error: None,
        }
    };
    drafts.into_iter().map(alert).collect()
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn a5_alerts_beyond_a_full_queue_are_counted_and_the_poller_does_not_wait() {
        let (counts, (dispatch, queue)) = (WithheldCounts::default(), bounded(1));
        let alerts = || vec![Alert::test("plugin", "a"), Alert::test("plugin", "b")];
        (0..3).for_each(|_| counts.hand_over(alerts(), &dispatch));
        assert_eq!((queue.len(), counts.now().unheard), (1, 4));
    }

    #[test]
    fn a_panic_is_counted_and_the_next_poll_runs() {
        let counts = WithheldCounts::default();
        assert!(!counts.guard(|| panic!("panic of the test")));
        assert!(counts.guard(|| ()));
        assert_eq!(counts.now().panics, 1);
    }

    #[test]
    fn costly_polls_have_longer_intervals_but_no_peak_is_missed() {
        assert_eq!(
            interval_after(Duration::from_micros(300)),
            SHORTEST_INTERVAL
        );
        assert_eq!(
            interval_after(Duration::from_millis(4)),
            Duration::from_millis(1_200)
        );
        assert_eq!(interval_after(Duration::from_secs(1)), LONGEST_INTERVAL);
    }
}
