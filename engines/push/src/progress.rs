//! What the threads of a pusher have done so far, as a report, and as numbers for the sums of the
//! session.
//!
//! Held by the pusher, and by the session while the pusher is listed there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::destination::PushDestination;
use super::queue::DestinationIndex;
use super::report::{DestinationReport, PushReport, PushedAmount, SendCounts};
use super::spool::Spool;
use profiler_parent::internal::pushers::{
    CaptureSum, DestinationNumbers, DestinationSum, PushNumbers, PushOutcomes, PushSource,
};

/// Where the numbers of a pusher are while it works.
#[derive(Debug)]
pub(super) struct PushProgress {
    /// The addresses of the destinations, without secrets.
    pub(super) addresses: Vec<String>,
    /// Written by the capturing thread. The spool and the destinations are not in it.
    pub(super) captures: Arc<Mutex<PushReport>>,
    /// Written by the senders, one for each destination.
    pub(super) counts: Vec<Arc<Mutex<SendCounts>>>,
    pub(super) spool: Arc<Spool>,
    /// Batches that wait at the end stay in the spool. Otherwise they are lost then.
    pub(super) keeps_waiting: bool,
}

impl PushProgress {
    /// No numbers yet, except those of the batches in the spool.
    pub(super) fn new(
        destinations: &[PushDestination],
        spool: Arc<Spool>,
        keeps_waiting: bool,
    ) -> Self {
        Self {
            addresses: destinations.iter().map(PushDestination::address).collect(),
            captures: Arc::default(),
            counts: destinations.iter().map(|_| Arc::default()).collect(),
            spool,
            keeps_waiting,
        }
    }

    /// The present numbers.
    pub(super) fn report(&self) -> PushReport {
        let all = self.addresses.iter().zip(&self.counts).enumerate();
        let destinations = all.map(|(place, (address, counts))| {
            self.destination(DestinationIndex(place), address, counts)
        });
        let left = self.spool.left_directories();
        PushReport {
            spool_bytes: self.spool.bytes(),
            used_directories: left.in_use,
            unreadable_directories: left.unreadable,
            kept_batches: self.spool.kept(),
            destinations: destinations.collect(),
            ..lock(&self.captures).clone()
        }
    }

    fn destination(
        &self,
        index: DestinationIndex,
        address: &str,
        counts: &Mutex<SendCounts>,
    ) -> DestinationReport {
        let (waiting, batches) = self.spool.counts(index);
        let counts = lock(counts).clone();
        DestinationReport {
            address: address.to_owned(),
            sent: batches.sent.into(),
            lost: batches.lost.into(),
            rejected: batches.rejected.into(),
            waiting_batches: waiting.batches,
            waiting_entries: waiting.entries,
            requests: counts.requests,
            failed_requests: counts.failed_requests,
            body_bytes: counts.body_bytes,
            sent_bytes: counts.sent_bytes,
            error: counts.error,
            without_profiles: counts.without_profiles,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PushSource for PushProgress {
    fn numbers(&self) -> PushNumbers {
        let report = self.report();
        let captures = CaptureSum {
            entries: report.captured_entries,
            missed: report.missed_entries,
            failed: report.failed_captures,
        };
        let numbers = |destination| numbers_of(destination, &captures);
        PushNumbers {
            captures,
            spool_bytes: report.spool_bytes,
            keeps_waiting: self.keeps_waiting,
            destinations: report.destinations.into_iter().map(numbers).collect(),
        }
    }
}

/// The numbers of a destination. It has not got what the captures of its pusher have missed.
fn numbers_of(report: DestinationReport, captures: &CaptureSum) -> DestinationNumbers {
    let outcomes = |number: fn(&PushedAmount) -> u64| PushOutcomes {
        sent: number(&report.sent),
        lost: number(&report.lost),
        rejected: number(&report.rejected),
    };
    let sum = DestinationSum {
        batches: outcomes(|amount| amount.batches),
        entries: outcomes(|amount| amount.entries),
        requests: report.requests,
        failed_requests: report.failed_requests,
        body_bytes: report.body_bytes,
        sent_bytes: report.sent_bytes,
        missed_entries: captures.missed,
        failed_captures: captures.failed,
        left_batches: 0,
    };
    DestinationNumbers {
        waiting_batches: report.waiting_batches,
        waiting_entries: report.waiting_entries,
        address: report.address,
        sum,
    }
}
