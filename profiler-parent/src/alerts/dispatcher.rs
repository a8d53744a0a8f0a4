//! The dispatcher: a thread that writes the evidence of alerts, and calls the listeners. Both may
//! take long.
//!
//! Fed by [`super::poller`] through a bounded queue. Invariants: alerts are dispatched in the order
//! of their collections; no profile and no call begins after the alerts have ended; a panic affects
//! only the profile or the call that panicked.

use std::sync::Arc;

use crossbeam_channel::{Receiver, select};

use super::Alert;
use super::deadlocks::DeadlockListener;
use super::evidence::Evidence;
use super::listeners::Listeners;
use super::poller::{Finding, StopSignals, WithheldCounts};
use crate::capture::CaptureSources;
use crate::process_table::Deadlock;

/// Capacity of the queue, in collections.
pub(super) const QUEUE: usize = 16;

/// The state of the dispatcher's thread.
pub(super) struct Dispatcher {
    pub(super) captures: Arc<CaptureSources>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) deadlocks: Arc<DeadlockListener>,
    pub(super) counts: WithheldCounts,
    pub(super) signals: StopSignals,
    pub(super) evidence: Evidence,
}

impl Dispatcher {
    pub(super) fn run(mut self, findings: &Receiver<Finding>) {
        while let Some(finding) = self.next(findings) {
            match finding {
                Finding::Alerts(alerts) => self.dispatch(alerts),
                Finding::Deadlocks(deadlocks) => self.tell(&deadlocks),
            }
        }
    }

    fn tell(&self, deadlocks: &[Deadlock]) {
        if !self.deadlocks.tell(deadlocks) {
            self.counts.count_panic();
        }
    }

    /// Waits for the next finding; `None` when the alerts have ended.
    fn next(&self, findings: &Receiver<Finding>) -> Option<Finding> {
        let [stopped, over] = &self.signals.0;
        let next = select! {
            recv(stopped) -> _ => None,
            recv(over) -> _ => None,
            recv(findings) -> finding => finding.ok(),
        };
        next.filter(|_| !self.signals.is_over())
    }

    fn dispatch(&mut self, mut alerts: Vec<Alert>) {
        let Self {
            captures,
            signals,
            evidence,
            ..
        } = self;
        self.counts
            .guard(|| evidence.attach(&mut alerts, captures, || signals.is_over()));
        if !self.signals.is_over() {
            self.counts.guard(|| self.listeners.notify(&alerts));
        }
    }
}
