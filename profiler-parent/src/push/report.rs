//! What a pusher has done and what it could not do, in numbers.
//!
//! Filled by the threads of the pusher, read by the application and by the metrics at any time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::attempts::Answer;
use super::destination::PushDestination;
use super::http_client::Sent;
use super::queue::{Amount, DestinationIndex};
use super::spool::Spool;
use crate::prometheus::{
    CaptureSum, DestinationNumbers, DestinationSum, PushNumbers, PushOutcomes, PushSource,
};

/// The most characters of an error that are kept.
const MOST_ERROR: usize = 300;

/// What a pusher has done so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PushReport {
    /// The entries in all batches so far.
    pub captured_entries: u64,
    /// The entries that were evicted from the memory of their process before a batch contained them.
    pub missed_entries: u64,
    /// The number of captures that have failed. The next one contains their entries.
    pub failed_captures: u64,
    /// The latest reason for that.
    pub capture_error: Option<String>,
    /// The bytes of all batches in the spool now.
    pub spool_bytes: u64,
    /// The destinations, in the order of the options.
    pub destinations: Vec<DestinationReport>,
}

/// What a destination has got.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DestinationReport {
    /// Its address, which contains no secret.
    pub address: String,
    /// The batches that it has accepted.
    pub sent: PushedAmount,
    /// The batches that were removed before they were sent, because the spool was full.
    pub lost: PushedAmount,
    /// The batches of which it has refused a part, or that cannot be read.
    pub rejected: PushedAmount,
    /// The batches that wait in the spool.
    pub waiting_batches: u64,
    /// Requests, including repeated ones.
    pub requests: u64,
    /// Requests without success.
    pub failed_requests: u64,
    /// The bytes of all accepted bodies before compression.
    pub body_bytes: u64,
    /// The bytes of all accepted bodies as they were sent.
    pub sent_bytes: u64,
    /// The latest reason for a failure.
    pub error: Option<String>,
}

/// A number of batches, and of the entries in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PushedAmount {
    /// Batches.
    pub batches: u64,
    /// Entries.
    pub entries: u64,
}

impl From<Amount> for PushedAmount {
    fn from(Amount { batches, entries }: Amount) -> Self {
        Self { batches, entries }
    }
}

/// Where the numbers of a pusher are while it works.
#[derive(Debug)]
pub(super) struct PushProgress {
    /// The addresses of the destinations, without secrets.
    pub(super) addresses: Vec<String>,
    /// Written by the capturing thread. The spool and the destinations are not in it.
    pub(super) captures: Arc<Mutex<PushReport>>,
    /// Written by the senders, one for each destination.
    pub(super) counts: Vec<Arc<Mutex<SendCounts>>>,
    spool: Arc<Spool>,
}

impl PushProgress {
    /// No numbers yet, except those of the batches in the spool.
    pub(super) fn new(destinations: &[PushDestination], spool: Arc<Spool>) -> Self {
        Self {
            addresses: destinations.iter().map(PushDestination::address).collect(),
            captures: Arc::default(),
            counts: destinations.iter().map(|_| Arc::default()).collect(),
            spool,
        }
    }

    /// The present numbers.
    pub(super) fn report(&self) -> PushReport {
        let all = self.addresses.iter().zip(&self.counts).enumerate();
        let destinations = all.map(|(place, (address, counts))| {
            self.destination(DestinationIndex(place), address, counts)
        });
        PushReport {
            spool_bytes: self.spool.bytes(),
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
        let (waiting_batches, batches) = self.spool.counts(index);
        let counts = lock(counts).clone();
        DestinationReport {
            address: address.to_owned(),
            sent: batches.sent.into(),
            lost: batches.lost.into(),
            rejected: batches.rejected.into(),
            waiting_batches,
            requests: counts.requests,
            failed_requests: counts.failed_requests,
            body_bytes: counts.body_bytes,
            sent_bytes: counts.sent_bytes,
            error: counts.error,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PushSource for PushProgress {
    fn numbers(&self) -> PushNumbers {
        let report = self.report();
        PushNumbers {
            captures: CaptureSum {
                entries: report.captured_entries,
                missed: report.missed_entries,
                failed: report.failed_captures,
            },
            spool_bytes: report.spool_bytes,
            destinations: report.destinations.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<DestinationReport> for DestinationNumbers {
    fn from(report: DestinationReport) -> Self {
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
        };
        Self {
            waiting_batches: report.waiting_batches,
            address: report.address,
            sum,
        }
    }
}

/// What a sender counts.
#[derive(Clone, Debug, Default)]
pub(super) struct SendCounts {
    pub(super) requests: u64,
    pub(super) failed_requests: u64,
    pub(super) body_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) error: Option<String>,
}

impl SendCounts {
    /// Adds an attempt to send a body of this length.
    pub(super) fn add_attempt(&mut self, sent: &Sent, body: usize) {
        self.requests = self.requests.saturating_add(1);
        match &sent.answer {
            Answer::Status { status, .. } if (200..300).contains(status) => {
                self.body_bytes = self.body_bytes.saturating_add(body as u64);
                self.sent_bytes = self.sent_bytes.saturating_add(sent.bytes);
            }
            _ => self.failed_requests = self.failed_requests.saturating_add(1),
        }
    }

    /// Keeps the latest error.
    pub(super) fn note_error(&mut self, error: &str) {
        self.error = Some(error.chars().take(MOST_ERROR).collect());
    }
}
