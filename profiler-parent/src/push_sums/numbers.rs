//! The numbers of pushers as plain values: of captures and of destinations, and those of all
//! pushers at one reading.

use std::sync::Arc;

use crate::process_table::session_sums::{OTHER, Sum, SumKey, plain_name};

/// What pushers have captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureSum {
    /// The entries in all batches.
    pub entries: u64,
    /// The entries that were evicted before a batch contained them.
    pub missed: u64,
    /// The captures that have failed.
    pub failed: u64,
}

/// What has become of a batch that a pusher is done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushOutcomes {
    /// Accepted by the destination.
    pub sent: u64,
    /// Removed before it was sent, because the spool was full, or because its pusher ended and had
    /// no spool directory.
    pub lost: u64,
    /// Refused by the destination, or a part of it.
    pub rejected: u64,
}

/// What pushers have sent to one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DestinationSum {
    /// What became of batches.
    pub batches: PushOutcomes,
    /// The entries in these batches.
    pub entries: PushOutcomes,
    /// Requests that were sent.
    pub requests: u64,
    /// Those of them that failed.
    pub failed_requests: u64,
    /// The bytes of accepted bodies before compression.
    pub body_bytes: u64,
    /// The bytes of accepted bodies as they were sent.
    pub sent_bytes: u64,
    /// Entries that were evicted before a batch for this destination contained them.
    pub missed_entries: u64,
    /// Batches that waited when their pusher ended. A pusher with the same spool directory sends
    /// them.
    pub left_batches: u64,
    /// Captures for this destination that have failed. A later batch has their entries, unless they
    /// are missed.
    pub failed_captures: u64,
}

/// The address of a destination, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DestinationName(Arc<str>);

impl DestinationName {
    /// The name of the destination with this address.
    pub fn new(address: &str) -> Self {
        Self(plain_name(address))
    }

    /// The name of all further destinations.
    pub fn other() -> Self {
        Self(OTHER.into())
    }
}

impl SumKey for DestinationName {
    fn is_other(&self) -> bool {
        &*self.0 == OTHER
    }
}

/// The numbers of all pushers of a session.
#[derive(Clone, Debug, Default)]
pub struct PushReading {
    /// What was captured.
    pub captures: CaptureSum,
    /// The bytes of all spools.
    pub spool_bytes: u64,
    /// One row for each destination; the last one may be that of further destinations.
    pub destinations: Vec<DestinationRow>,
}

/// The numbers of a destination.
#[derive(Clone, Debug)]
pub struct DestinationRow {
    /// Its name.
    pub name: DestinationName,
    /// Batches that wait for it.
    pub waiting_batches: u64,
    /// What was sent to it and lost.
    pub sum: DestinationSum,
}

impl PushOutcomes {
    /// The numbers with the names of the outcomes.
    pub const fn named(&self) -> [(&'static str, u64); 3] {
        [
            ("sent", self.sent),
            ("lost", self.lost),
            ("rejected", self.rejected),
        ]
    }

    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        self.sent = with(self.sent, other.sent);
        self.lost = with(self.lost, other.lost);
        self.rejected = with(self.rejected, other.rejected);
    }
}

impl Sum for CaptureSum {
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        self.entries = with(self.entries, other.entries);
        self.missed = with(self.missed, other.missed);
        self.failed = with(self.failed, other.failed);
    }
}

impl Sum for DestinationSum {
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        self.batches.combine(&other.batches, with);
        self.entries.combine(&other.entries, with);
        self.requests = with(self.requests, other.requests);
        self.failed_requests = with(self.failed_requests, other.failed_requests);
        self.body_bytes = with(self.body_bytes, other.body_bytes);
        self.sent_bytes = with(self.sent_bytes, other.sent_bytes);
        self.missed_entries = with(self.missed_entries, other.missed_entries);
        self.failed_captures = with(self.failed_captures, other.failed_captures);
        self.left_batches = with(self.left_batches, other.left_batches);
    }
}

impl DestinationName {
    /// The address, or that it stands for several.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl DestinationRow {
    /// What the destination has not got, in a sentence; `None` if it has everything, or if the rest
    /// waits.
    pub fn losses(&self) -> Option<String> {
        let DestinationSum {
            batches,
            entries,
            missed_entries,
            ..
        } = &self.sum;
        let lost = |batches: u64, entries: u64, what: &str| {
            (batches > 0).then(|| format!("{batches} batches ({entries} entries) {what}"))
        };
        let missed = || format!("{missed_entries} entries were evicted before a capture");
        let parts = [
            lost(
                batches.lost,
                entries.lost,
                "were lost before they were sent",
            ),
            lost(batches.rejected, entries.rejected, "were rejected"),
            (*missed_entries > 0).then(missed),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let address = self.name.as_str();
        (!parts.is_empty()).then(|| format!("pushing to {address}: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_a_sentence_and_what_waits_is_none() {
        let mut row = DestinationRow {
            name: DestinationName::new("otlp+http://host"),
            waiting_batches: 9,
            sum: DestinationSum::default(),
        };
        assert_eq!(row.losses(), None);
        row.sum.batches.lost = 3;
        row.sum.entries.lost = 30;
        row.sum.missed_entries = 7;
        assert_eq!(
            row.losses().as_deref(),
            Some(
                "pushing to otlp+http://host: 3 batches (30 entries) were lost before they \
                 were sent, 7 entries were evicted before a capture"
            )
        );
    }
}
