//! What the threads of a pusher have done so far, as a report and as numbers for the profile's log.
//!
//! Held by the pusher and, weakly, by the session's ledger of pushers.

use std::sync::{Arc, Mutex, PoisonError};

use super::queue::{Amount, DestinationIndex};
use super::report::{DestinationReport, PushReport, SendCounts};
use super::spool::Spool;
use crate::push_ledger::{BatchTotals, PushProgress, PushTotals};

/// Where the threads of a pusher count.
#[derive(Debug)]
pub(super) struct PusherProgress {
    pub(super) spool: Arc<Spool>,
    /// Filled by the capturing thread, without destinations.
    pub(super) captured: Arc<Mutex<PushReport>>,
    pub(super) destinations: Vec<CountedDestination>,
}

/// A destination, and what its sender counts.
#[derive(Debug)]
pub(super) struct CountedDestination {
    pub(super) address: String,
    pub(super) counts: Arc<Mutex<SendCounts>>,
}

impl PusherProgress {
    pub(super) fn report(&self) -> PushReport {
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = captured.clone();
        drop(captured);
        report.spool_bytes = self.spool.bytes();
        let all = self.destinations.iter().enumerate();
        report.destinations = all
            .map(|(place, destination)| self.destination(DestinationIndex(place), destination))
            .collect();
        report
    }

    fn destination(&self, index: DestinationIndex, of: &CountedDestination) -> DestinationReport {
        let (waiting_batches, batches) = self.spool.counts(index);
        let counts = of.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = counts.clone();
        DestinationReport {
            address: of.address.clone(),
            sent: batches.sent.into(),
            lost: batches.lost.into(),
            rejected: batches.rejected.into(),
            waiting_batches,
            requests: counts.requests,
            failed_requests: counts.failed_requests,
            body_bytes: counts.body_bytes,
            sent_bytes: counts.sent_bytes,
            error: counts.error,
            without_profiles: counts.without_profiles,
        }
    }
}

impl PushProgress for PusherProgress {
    fn totals(&self) -> Vec<PushTotals> {
        let captured = self.captured.lock().unwrap_or_else(PoisonError::into_inner);
        let (missed_entries, failed_captures) = (captured.missed_entries, captured.failed_captures);
        drop(captured);
        let all = self.destinations.iter().enumerate();
        let totals = all.map(|(place, destination)| {
            let (waiting_batches, batches) = self.spool.counts(DestinationIndex(place));
            PushTotals {
                address: destination.address.clone(),
                sent: batches.sent.into(),
                lost: batches.lost.into(),
                refused: batches.rejected.into(),
                waiting_batches,
                missed_entries,
                failed_captures,
            }
        });
        totals.collect()
    }
}

impl From<Amount> for BatchTotals {
    fn from(Amount { batches, entries }: Amount) -> Self {
        Self { batches, entries }
    }
}
