//! The text of the numbers of pushers.
//!
//! Used by [`super::metrics`]. Pure.

use super::exposition::{Exposition, MetricFamily, SampleLabels, SampleValue};
use super::families;
use crate::push_sums::{CaptureSum, DestinationRow, PushOutcomes, PushReading};

impl PushReading {
    /// Writes the numbers of all pushers of a session.
    pub(in crate::prometheus) fn write(&self, out: &mut Exposition) {
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
        SampleLabels::of([("destination", self.name.as_str())])
    }
}
