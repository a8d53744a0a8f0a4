//! Alerts: report slow runs of groups while the session runs, with evidence; and deadlocks.
//!
//! Used by applications and by the live page. [`Session::alerts`](crate::Session::alerts) starts a
//! thread that reads the groups of all processes ([`crate::groups`]) several times a second,
//! without a request to any process. A pure state machine decides which runs raise an alert. A
//! second thread writes the evidence and calls the `listeners`, which may block it.
//!
//! ```text
//! poller: must be on time                        dispatcher: may take long
//! pools ──peaks of all groups──▶ machine ──queue──▶ evidence: a profile of that time ──▶ listeners
//! ```

mod deadlocks;
mod dispatcher;
mod evidence;
mod listeners;
mod machine;
mod poller;
mod rules;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_core::ids::ProcessId;
use profiler_sys::{QuietThread, spawn_quiet};
use serde::Serialize;

pub use evidence::EvidenceOptions;
pub(crate) use evidence::slow_runs;
pub use listeners::{AlertTarget, ListenerError};
pub use machine::SuppressedAlerts;
pub use rules::AlertRules;

use crate::capture::CaptureSources;
use crate::groups::{GroupId, Monitor, SnapshotReader};
use crate::process_table::{Deadlock, ProcessTable};
use crate::session_time::SessionNs;
use deadlocks::DeadlockListener;
use dispatcher::Dispatcher;
use evidence::Evidence;
use listeners::Listeners;
use poller::{Poller, StopSignals, WithheldCounts};

/// Why alerts could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AlertsError {
    /// The directory for the evidence cannot be created.
    #[error("cannot create the evidence directory {}: {source}", directory.display())]
    Evidence {
        /// The directory.
        directory: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused a thread.
    #[error("cannot start a thread for alerts: {0}")]
    Thread(#[source] io::Error),
}

/// A run of a group that was too long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SlowRun {
    /// When it began.
    pub from: SessionNs,
    /// When it ended.
    pub to: SessionNs,
    /// The name of its thread, if it is known.
    pub thread: Option<String>,
}

impl SlowRun {
    /// How long it took, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.to.0.saturating_sub(self.from.0).unsigned_abs()
    }
}

/// A group was too slow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Alert {
    /// Name of the group.
    pub group: String,
    /// Name of the group's kind.
    pub kind: String,
    /// Identity of the group in its process.
    pub id: GroupId,
    /// System number of the process.
    pub process: ProcessId,
    /// Shown name of the process.
    pub process_name: String,
    /// Duration of its longest run since the previous alert, in nanoseconds.
    pub highest_ns: u64,
    /// The number of observed runs that were too long: at least one, and at most one in half a
    /// second.
    pub runs: u64,
    /// The longest of these runs, at most 16, in the order of their ends.
    pub slow_runs: Vec<SlowRun>,
    /// Its waiting time since the previous alert, in nanoseconds; 0 unless waiting is measured.
    pub blocking_ns: u64,
    /// When the first of those runs began.
    pub from: SessionNs,
    /// When the last of them ended.
    pub to: SessionNs,
    /// The file with a profile of that time, if evidence is kept and this was one of the worst
    /// alerts.
    pub evidence: Option<PathBuf>,
    /// The error, if the evidence could not be written.
    pub evidence_error: Option<String>,
}

#[cfg(test)]
impl Alert {
    fn test(kind: &str, group: &str) -> Self {
        let pool = profiler_core::ids::PoolId::new(1);
        let number = profiler_core::ids::GroupIndex::new(0);
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            id: GroupId {
                pool,
                epoch: 1,
                number,
            },
            process: ProcessId::new(1),
            process_name: "p".to_owned(),
            highest_ns: 1,
            runs: 1,
            slow_runs: Vec::new(),
            blocking_ns: 0,
            from: SessionNs(0),
            to: SessionNs(1),
            evidence: None,
            evidence_error: None,
        }
    }
}

/// The inputs of alerts.
#[derive(Debug)]
pub(crate) struct AlertSources {
    pub(crate) groups: Arc<SnapshotReader>,
    /// Has the deadlocks.
    pub(crate) processes: Arc<ProcessTable>,
    /// For the evidence.
    pub(crate) captures: Arc<CaptureSources>,
    /// Disconnected when the session ends.
    pub(crate) session_end: Receiver<()>,
}

/// The running alerts of a session. Dropping it ends the alerts, and waits for a running callback
/// or for evidence that is being written, which takes as long as a capture.
#[derive(Debug)]
#[must_use = "alerts end when this is dropped"]
pub struct Alerts {
    listeners: Arc<Listeners>,
    deadlocks: Arc<DeadlockListener>,
    counts: WithheldCounts,
    stop: Option<Sender<()>>,
    threads: Vec<QuietThread<()>>,
    /// Keeps the necessary measurements on.
    _monitor: Monitor,
}

impl Alerts {
    /// Starts the poller and the dispatcher.
    ///
    /// # Errors
    /// [`AlertsError`] if the directory or a thread cannot be created.
    pub(crate) fn start(
        sources: AlertSources,
        monitor: Monitor,
        rules: AlertRules,
        evidence: EvidenceOptions,
    ) -> Result<Self, AlertsError> {
        let listeners = Arc::<Listeners>::default();
        let deadlocks = Arc::<DeadlockListener>::default();
        let counts = WithheldCounts::default();
        let (stop, stopped) = bounded(0);
        let signals = StopSignals([stopped, sources.session_end]);
        let (dispatch, collections) = bounded(dispatcher::QUEUE);
        let dispatcher = Dispatcher {
            captures: sources.captures,
            listeners: Arc::clone(&listeners),
            deadlocks: Arc::clone(&deadlocks),
            counts: counts.clone(),
            signals: signals.clone(),
            evidence: Evidence::new(evidence)?,
        };
        let poller = Poller {
            groups: sources.groups,
            processes: sources.processes,
            listeners: Arc::clone(&listeners),
            deadlocks: Arc::clone(&deadlocks),
            counts: counts.clone(),
            signals,
            dispatch,
        };
        // If the second thread cannot be started, the first one ends because its queue is closed.
        let dispatcher = spawn_quiet("profiler-tell", move || dispatcher.run(&collections));
        let dispatcher = dispatcher.map_err(AlertsError::Thread)?;
        let poller = spawn_quiet("profiler-alerts", move || poller.run(&rules));
        let poller = poller.map_err(AlertsError::Thread)?;
        Ok(Self {
            listeners,
            deadlocks,
            counts,
            stop: Some(stop),
            threads: vec![poller, dispatcher],
            _monitor: monitor,
        })
    }

    /// Calls `callback` with the alerts for this target, from a thread of the alerts. One call
    /// receives all alerts of a collection, the most janky group first. While a callback runs,
    /// polls continue and up to sixteen further collections are queued; later ones are counted in
    /// [`SuppressedAlerts::unheard`]. A callback that panics is removed. The target need not exist
    /// yet. [`Alerts::remove`] takes the same `name`.
    ///
    /// # Errors
    /// [`ListenerError::Duplicate`] if the target already has a listener of that name.
    pub fn add(
        &self,
        target: AlertTarget,
        name: &str,
        callback: impl FnMut(&[Alert]) + Send + 'static,
    ) -> Result<(), ListenerError> {
        self.listeners.add(target, name, Box::new(callback))
    }

    /// Sets the callback for deadlocks, and replaces the previous one. A thread of the alerts calls
    /// it once for each deadlock: first for those that
    /// [`Session::deadlocks`](crate::Session::deadlocks) already returns, then for new ones. A new
    /// deadlock is passed on after 0.2 to 3 seconds, or later while evidence is written. A deadlock
    /// that was passed to one callback is not passed to the next one. A callback that panics is
    /// removed.
    pub fn on_deadlock(&self, callback: impl FnMut(&Deadlock) + Send + 'static) {
        self.deadlocks.set(Box::new(callback));
    }

    /// Removes a listener; waits for a running call.
    ///
    /// # Errors
    /// [`ListenerError::Unknown`] if the target has no listener of that name.
    pub fn remove(&self, target: &AlertTarget, name: &str) -> Result<(), ListenerError> {
        self.listeners.remove(target, name)
    }

    /// The number of alerts withheld so far, by the rules or for lack of room.
    pub fn withheld(&self) -> SuppressedAlerts {
        self.counts.now()
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        self.stop = None;
        let is_own = |thread: &QuietThread<()>| thread.is_current();
        for thread in self.threads.drain(..).filter(|thread| !is_own(thread)) {
            let _ = thread.join();
        }
    }
}
