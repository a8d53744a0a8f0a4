//! What a pusher has done and what it could not do, in numbers.
//!
//! Filled by the threads of the pusher, read by the application and by the metrics at any time.

use super::attempts::Answer;
use super::http_client::Sent;
use super::queue::Amount;

/// The most characters of an error that are kept.
const MAX_ERROR: usize = 300;

/// What a pusher has done so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PushReport {
    /// The entries in all batches so far.
    pub captured_entries: u64,
    /// The entries that were evicted from the memory of their process before a batch contained
    /// them.
    pub missed_entries: u64,
    /// The number of captures that have failed. The next one contains their entries.
    pub failed_captures: u64,
    /// The latest reason for that.
    pub capture_error: Option<String>,
    /// The bytes of all batches in the spool now.
    pub spool_bytes: u64,
    /// The directories in the spool that other pushers used when this one started.
    pub used_directories: u64,
    /// The directories in the spool that could not be read when this pusher started, or that an
    /// earlier version has made in another format. They stay.
    pub unreadable_directories: u64,
    /// The batches that stay in the spool because destinations of their pusher lack them
    /// ([`OtherDestinations::Keep`](super::OtherDestinations::Keep)).
    pub kept_batches: u64,
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
    /// The batches of which it has refused a part, that cannot be read, or whose directory another
    /// pusher has taken over.
    pub rejected: PushedAmount,
    /// The batches that wait in the spool.
    pub waiting_batches: u64,
    /// The entries in these batches.
    pub waiting_entries: u64,
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
    /// Why the endpoint gets no profiles, if it takes only the other signals of OTLP. Its batches
    /// count as sent without them.
    pub without_profiles: Option<String>,
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

/// What a sender counts.
#[derive(Clone, Debug, Default)]
pub(super) struct SendCounts {
    pub(super) requests: u64,
    pub(super) failed_requests: u64,
    pub(super) body_bytes: u64,
    pub(super) sent_bytes: u64,
    pub(super) error: Option<String>,
    pub(super) without_profiles: Option<String>,
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
        self.error = Some(error.chars().take(MAX_ERROR).collect());
    }
}
