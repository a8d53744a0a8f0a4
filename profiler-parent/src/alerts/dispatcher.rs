//! The thread that tells: writes the evidence of alerts, and calls the listeners. Both may take as long as they like.
//!
//! Fed by [`super::poller`] through a bounded queue. Invariants: alerts are told in the order of their collections; after the
//! end nothing more is begun, neither a profile nor a call; a panic costs what panicked.

use std::sync::Arc;

use crossbeam_channel::{Receiver, select};

use super::Alert;
use super::evidence::Evidence;
use super::listeners::Listeners;
use super::poller::{Counts, Ends};
use crate::supervisor::{HubHandle, Shared};

/// Collections that wait to be told.
pub(super) const QUEUE: usize = 16;

/// What the thread has.
pub(super) struct Teller {
    pub(super) shared: Arc<Shared>,
    pub(super) hub: HubHandle,
    pub(super) listeners: Arc<Listeners>,
    pub(super) counts: Counts,
    pub(super) ends: Ends,
    pub(super) evidence: Evidence,
}

impl Teller {
    pub(super) fn run(mut self, collections: &Receiver<Vec<Alert>>) {
        while let Some(alerts) = self.next(collections) {
            self.tell(alerts);
        }
    }

    /// The next collection; `None` at the end.
    fn next(&self, collections: &Receiver<Vec<Alert>>) -> Option<Vec<Alert>> {
        let [stopped, over] = &self.ends.0;
        let next = select! {
            recv(stopped) -> _ => None,
            recv(over) -> _ => None,
            recv(collections) -> alerts => alerts.ok(),
        };
        next.filter(|_| !self.ends.are_here())
    }

    fn tell(&mut self, mut alerts: Vec<Alert>) {
        let (parts, ends, evidence) = ((&self.shared, &self.hub), &self.ends, &mut self.evidence);
        self.counts.guard(|| evidence.attach(&mut alerts, parts, || ends.are_here()));
        if !self.ends.are_here() {
            self.counts.guard(|| self.listeners.tell(&alerts));
        }
    }
}
