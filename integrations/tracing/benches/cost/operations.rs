//! The operations that are measured, and their measurement.
//!
//! Each operation is repeated in short rounds, and the fastest round counts: a round that was
//! interrupted says nothing about the operation.

use std::hint::black_box;

use profiler_core::time::Timestamp;
use test_support::patience::Stopwatch;
use tracing::{info, info_span};

const ROUNDS: u32 = 400;
const REPETITIONS: u32 = 500;

/// A span without fields, from its creation to its end.
pub(crate) fn span() {
    let _span = info_span!("span").entered();
}

/// A span with a number, from its creation to its end.
pub(crate) fn span_with_field() {
    let bytes = black_box(70_000_u64);
    let _span = info_span!("span with a field", bytes).entered();
}

/// An event with a number.
pub(crate) fn event() {
    let bytes = black_box(70_000_u64);
    info!(bytes, "event");
}

/// Two reads of the clock, as a span needs them.
pub(crate) fn two_clock_reads() {
    black_box((Timestamp::now(), Timestamp::now()));
}

/// The name of an operation, and the nanoseconds of one call.
pub(crate) type Cost = (&'static str, f64);

/// The nanoseconds of one call in the fastest round.
pub(crate) fn nanoseconds(operation: impl Fn()) -> f64 {
    nanoseconds_of(1, operation)
}

/// Like [`nanoseconds`], for a function that executes the operation several times.
pub(crate) fn nanoseconds_of(times: u32, operations: impl Fn()) -> f64 {
    let calls = REPETITIONS / times;
    let round = || {
        let watch = Stopwatch::start();
        (0..calls).for_each(|_| operations());
        watch.elapsed()
    };
    let fastest = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    fastest.as_secs_f64() * 1e9 / f64::from(calls * times)
}

/// The operations with their names.
pub(crate) fn measure_all() -> Vec<Cost> {
    let open = info_span!("polled");
    let mut costs = vec![
        ("two_clock_reads", nanoseconds(two_clock_reads)),
        ("span", nanoseconds(span)),
        ("span_with_field", nanoseconds(span_with_field)),
        ("poll", nanoseconds(|| open.in_scope(|| ()))),
        ("event", nanoseconds(event)),
    ];
    // In an asynchronous server there is always a span with several handles.
    let _clone = open.clone();
    costs.push(("span_beside_clone", nanoseconds(span_with_field)));
    costs
}
