//! The thread of the alerts: looks at all groups, feeds the state machine, tells the listeners.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, select};
use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::time::{Anchor, Timestamp};

use super::Alert;
use super::evidence::Evidence;
use super::listeners::Listeners;
use super::machine::{Draft, Look, Machine, Run, Withheld};
use super::rules::AlertRules;
use crate::groups::{GroupId, GroupsSnapshot};
use crate::hub::{HubHandle, Shared};
use crate::observe::SessionNs;

/// Time between two looks, as long as they are cheap. Peaks are kept for five seconds, so none is missed.
const LOOK: Duration = Duration::from_millis(200);
/// Where there are many processes: so many times as long as a look took is waited, so that all looks together take a third of a
/// hundredth of a processor.
const REST: u32 = 300;
/// But no longer than this.
const LONGEST_REST: Duration = Duration::from_secs(3);
/// How long a look may take before it begins no further pool.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What the thread has.
pub(super) struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) hub: HubHandle,
    pub(super) listeners: Arc<Listeners>,
    pub(super) withheld: Arc<Mutex<Withheld>>,
    /// Whoever is heard here ends it.
    pub(super) ends: [Receiver<()>; 2],
    pub(super) evidence: Evidence,
}

impl Watch {
    pub(super) fn run(mut self, rules: AlertRules) {
        let mut snapshot = crate::groups::snapshot(&self.shared, TIMEOUT);
        let mut machine = Machine::new(rules, SessionNs(snapshot.at_ns));
        loop {
            let now = SessionNs(snapshot.at_ns);
            machine.meet(now, snapshot.processes.iter().map(|process| process.pool));
            let drafts = machine.look(now, looks(&snapshot));
            *self.withheld.lock().unwrap_or_else(PoisonError::into_inner) = machine.withheld();
            if !drafts.is_empty() && !self.listeners.is_empty() {
                let mut alerts = alerts(drafts, &snapshot);
                self.evidence.attach(&mut alerts, &self.shared, &self.hub);
                self.listeners.tell(&alerts);
            }
            let [stopped, over] = &self.ends;
            select! {
                recv(stopped) -> _ => return,
                recv(over) -> _ => return,
                default(rest_after(self.since(now))) => {}
            }
            snapshot = crate::groups::snapshot(&self.shared, TIMEOUT);
        }
    }

    fn since(&self, begun: SessionNs) -> Duration {
        let now = self.shared.clock.converter(Anchor::take()).since_start_ns(Timestamp::now());
        Duration::from_nanos(u64::try_from(now.saturating_sub(begun.0)).unwrap_or(0))
    }
}

/// How long to wait after a look that took so long.
fn rest_after(took: Duration) -> Duration {
    took.saturating_mul(REST).clamp(LOOK, LONGEST_REST)
}

fn looks(snapshot: &GroupsSnapshot) -> impl Iterator<Item = Look<GroupId, PoolId>> + '_ {
    snapshot.rows().map(|(process, row)| Look {
        id: row.id,
        process: process.pool,
        kind: row.kind.name().to_owned(),
        name: row.name.clone(),
        runs: row.totals.peaks.iter().map(|peak| run(peak.ended_ns, peak.duration_ns)).collect(),
        blocking_ns: row.totals.blocking_ns,
    })
}

fn run(ended_ns: u64, duration_ns: u64) -> Run {
    Run { ended: SessionNs(i64::try_from(ended_ns).unwrap_or(i64::MAX)), duration_ns }
}

fn alerts(drafts: Vec<Draft<GroupId>>, snapshot: &GroupsSnapshot) -> Vec<Alert> {
    let names: BTreeMap<PoolId, (ProcessId, &str)> = snapshot
        .processes
        .iter()
        .map(|process| (process.pool, (process.pid, process.name.as_str())))
        .collect();
    let alert = |draft: Draft<GroupId>| {
        let (process, name) = names.get(&draft.id.pool).copied().unwrap_or((ProcessId::new(0), ""));
        Alert {
            group: draft.name,
            kind: draft.kind,
            id: draft.id,
            process,
            process_name: name.to_owned(),
            highest_ns: draft.highest_ns,
            runs: draft.runs,
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
    use super::*;

    #[test]
    fn looks_are_rarer_where_they_cost_more_but_no_peak_is_missed() {
        assert_eq!(rest_after(Duration::from_micros(300)), LOOK);
        assert_eq!(rest_after(Duration::from_millis(4)), Duration::from_millis(1_200));
        assert_eq!(rest_after(Duration::from_secs(1)), LONGEST_REST);
    }
}
