//! Converts the value of a histogram of times to the instant at which the time began.
//!
//! The session's clock counts ticks, whose length is measured between the start of the first
//! session and the first value after it. Invariant: an instant is never before the start of that session.

use std::sync::OnceLock;

use profiler_core::time::{Anchor, TimeConverter, Timestamp, clock_kind};

/// The shortest time in which the length of a tick is measured.
const LEAST_NS: u64 = 1_000_000;

/// When recording began. By then it is decided which clock the process reads.
static START: OnceLock<Anchor> = OnceLock::new();
static CONVERTER: OnceLock<TimeConverter> = OnceLock::new();

/// Called when a session has started.
pub(crate) fn begin() {
    START.get_or_init(Anchor::take);
}

/// The instant that is so many nanoseconds before `end`. `None` if the length of a tick is not
/// known yet, or if this is no time.
pub(crate) fn before(end: Timestamp, nanoseconds: f64) -> Option<Timestamp> {
    let converter = match CONVERTER.get() {
        Some(converter) => converter,
        None => measure()?,
    };
    if nanoseconds.is_nan() || nanoseconds < 0.0 {
        return None;
    }
    // A conversion of floating-point numbers saturates.
    let ticks = converter.ticks_in(nanoseconds as u64);
    let begin = Timestamp::from_raw(end.raw().saturating_sub(ticks));
    Some(begin.max(converter.start().ticks))
}

#[cold]
fn measure() -> Option<&'static TimeConverter> {
    let start = *START.get()?;
    let later = Anchor::take();
    let elapsed_ns = later.monotonic.0.saturating_sub(start.monotonic.0);
    (elapsed_ns >= LEAST_NS)
        .then(|| CONVERTER.get_or_init(|| TimeConverter::new(clock_kind(), start, later)))
}
