//! The text of the numbers of pushers.
//!
//! Used by [`super::metrics`]. Pure.

use super::exposition::{Exposition, MetricFamily, SampleLabels, SampleValue};
use super::families;
use profiler_parent::internal::pushers::{CaptureSum, DestinationRow, PushOutcomes, PushReading};

/// Writes the numbers of all pushers of a session.
pub(crate) fn write_pushed(pushed: &PushReading, out: &mut Exposition) {
    let CaptureSum {
        entries,
        missed,
        failed,
    } = pushed.captures;
    for (family, number) in [
        (families::PUSH_CAPTURED, entries),
        (families::PUSH_MISSED, missed),
        (families::PUSH_CAPTURES_FAILED, failed),
        (families::PUSH_SPOOL, pushed.spool_bytes),
    ] {
        out.single(&family, SampleValue::Whole(number));
    }
    let rows = &pushed.destinations;
    by_outcome(rows, out, families::PUSH_BATCHES, |row| row.sum.batches);
    by_outcome(rows, out, families::PUSH_ENTRIES, |row| row.sum.entries);
    for (family, number) in NUMBERS {
        out.begin(&family);
        for row in rows {
            out.sample(&family, &labels(row), SampleValue::Whole(number(row)));
        }
    }
}

/// One number of a destination.
type NumberOf = fn(&DestinationRow) -> u64;

/// The families with one number for each destination.
const NUMBERS: [(MetricFamily, NumberOf); 5] = [
    (families::PUSH_WAITING, |row| row.waiting_batches),
    (families::PUSH_REQUESTS, |row| row.sum.requests),
    (families::PUSH_REQUESTS_FAILED, |row| {
        row.sum.failed_requests
    }),
    (families::PUSH_BODIES, |row| row.sum.body_bytes),
    (families::PUSH_SENT, |row| row.sum.sent_bytes),
];

fn by_outcome(
    rows: &[DestinationRow],
    out: &mut Exposition,
    family: MetricFamily,
    numbers: fn(&DestinationRow) -> PushOutcomes,
) {
    out.begin(&family);
    for row in rows {
        for (outcome, number) in numbers(row).named() {
            let labels = labels(row).with("outcome", outcome);
            out.sample(&family, &labels, SampleValue::Whole(number));
        }
    }
}

fn labels(row: &DestinationRow) -> SampleLabels {
    SampleLabels::of([("destination", row.name.as_str())])
}
