//! The numbers of pushers at one reading, and their text.
//!
//! Made by [`super::push_sums`]. Plain values.

use std::sync::Arc;

use super::exposition::{Exposition, MetricFamily, SampleLabels, SampleValue};
use super::families;
use crate::process_table::session_sums::{OTHER, Sum, SumKey, plain_name};

/// What pushers have captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaptureSum {
    /// The entries in all batches.
    pub(crate) entries: u64,
    /// The entries that were evicted before a batch contained them.
    pub(crate) missed: u64,
    /// The captures that have failed.
    pub(crate) failed: u64,
}

/// What has become of a batch that a pusher is done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PushOutcomes {
    /// Accepted by the destination.
    pub(crate) sent: u64,
    /// Removed before it was sent, because the spool was full.
    pub(crate) lost: u64,
    /// Refused by the destination, or a part of it.
    pub(crate) rejected: u64,
}

/// What pushers have sent to one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DestinationSum {
    pub(crate) batches: PushOutcomes,
    /// The entries in these batches.
    pub(crate) entries: PushOutcomes,
    pub(crate) requests: u64,
    pub(crate) failed_requests: u64,
    /// The bytes of accepted bodies before compression.
    pub(crate) body_bytes: u64,
    /// The bytes of accepted bodies as they were sent.
    pub(crate) sent_bytes: u64,
}

/// The address of a destination, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DestinationName(Arc<str>);

impl DestinationName {
    pub(super) fn new(address: &str) -> Self {
        Self(plain_name(address))
    }

    /// The name of all further destinations.
    pub(super) fn other() -> Self {
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
pub(super) struct PushReading {
    pub(super) captures: CaptureSum,
    pub(super) spool_bytes: u64,
    /// One row for each destination; the last one may be that of further destinations.
    pub(super) destinations: Vec<DestinationRow>,
}

/// The numbers of a destination.
#[derive(Clone, Debug)]
pub(super) struct DestinationRow {
    pub(super) name: DestinationName,
    pub(super) waiting_batches: u64,
    pub(super) sum: DestinationSum,
}

impl PushOutcomes {
    const fn named(&self) -> [(&'static str, u64); 3] {
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
    }
}

impl PushReading {
    pub(super) fn write(&self, out: &mut Exposition) {
        let CaptureSum {
            entries,
            missed,
            failed,
        } = self.captures;
        for (family, number) in [
            (families::PUSH_CAPTURED, entries),
            (families::PUSH_MISSED, missed),
            (families::PUSH_CAPTURES_FAILED, failed),
            (families::PUSH_SPOOL, self.spool_bytes),
        ] {
            out.single(&family, SampleValue::Whole(number));
        }
        self.by_outcome(out, families::PUSH_BATCHES, |row| row.sum.batches);
        self.by_outcome(out, families::PUSH_ENTRIES, |row| row.sum.entries);
        self.by_destination(out, families::PUSH_WAITING, |row| row.waiting_batches);
        self.by_destination(out, families::PUSH_REQUESTS, |row| row.sum.requests);
        self.by_destination(out, families::PUSH_REQUESTS_FAILED, |row| {
            row.sum.failed_requests
        });
        self.by_destination(out, families::PUSH_BODIES, |row| row.sum.body_bytes);
        self.by_destination(out, families::PUSH_SENT, |row| row.sum.sent_bytes);
    }

    fn by_destination(
        &self,
        out: &mut Exposition,
        family: MetricFamily,
        number: fn(&DestinationRow) -> u64,
    ) {
        out.begin(&family);
        for row in &self.destinations {
            out.sample(&family, &row.labels(), SampleValue::Whole(number(row)));
        }
    }

    fn by_outcome(
        &self,
        out: &mut Exposition,
        family: MetricFamily,
        numbers: fn(&DestinationRow) -> PushOutcomes,
    ) {
        out.begin(&family);
        for row in &self.destinations {
            for (outcome, number) in numbers(row).named() {
                let labels = row.labels().with("outcome", outcome);
                out.sample(&family, &labels, SampleValue::Whole(number));
            }
        }
    }
}

impl DestinationRow {
    fn labels(&self) -> SampleLabels {
        SampleLabels::of([("destination", &*self.name.0)])
    }
}
