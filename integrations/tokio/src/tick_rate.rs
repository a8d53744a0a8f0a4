//! Converts the ticks of the session's clock to nanoseconds, for the times that markers contain.
//!
//! Used for the times of polls. The core converts the times of entries when a profile is written;
//! the time that a task has spent in polls is a value in an entry, so it is converted here. The
//! rate is learned from two anchors, and again each time that the interval between them has
//! doubled. Invariant: the interval is at least [`LEAST_NS`], which makes an error of some tens of
//! nanoseconds a thousandth.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use profiler_core::time::{Anchor, ClockKind, TimeConverter, Timestamp, clock_kind};

/// Shortest interval between the two anchors.
const LEAST_NS: u64 = 100_000;
/// Fractional bits of the rate in nanoseconds per tick.
const SHIFT: u32 = 32;

/// The rate of the cycle counter; 0 before it is known.
static RATE: AtomicU64 = AtomicU64::new(0);
/// The tick at which the rate is learned again.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// The first anchor.
static FIRST: Mutex<Option<Anchor>> = Mutex::new(None);

/// The nanoseconds between two instants; 0 if `end` is before `start`. The first call for a cycle
/// counter takes a tenth of a millisecond.
#[inline]
pub(crate) fn nanoseconds_between(start: Timestamp, end: Timestamp) -> u64 {
    let ticks = end.since(start);
    if clock_kind() == ClockKind::Monotonic {
        return ticks;
    }
    if end.raw() >= NEXT.load(Ordering::Relaxed) {
        learn();
    }
    let product = u128::from(ticks) * u128::from(RATE.load(Ordering::Relaxed));
    u64::try_from(product >> SHIFT).unwrap_or(u64::MAX)
}

#[cold]
fn learn() {
    let now = Anchor::take();
    let first = match FIRST.try_lock() {
        Ok(mut first) => *first.get_or_insert(now),
        // Another thread learns the rate, or did so when this process was forked.
        Err(_) => now,
    };
    let later = if first.monotonic.0.saturating_add(LEAST_NS) > now.monotonic.0 {
        anchor_after(first)
    } else {
        now
    };
    let converter = TimeConverter::new(ClockKind::CycleCounter, first, later);
    let ticks = converter.ticks_in(1 << SHIFT).max(1);
    let rate = (1_u128 << (2 * SHIFT)) / u128::from(ticks);
    RATE.store(u64::try_from(rate).unwrap_or(u64::MAX), Ordering::Relaxed);
    let age = later.ticks.since(first.ticks);
    NEXT.store(later.ticks.raw().saturating_add(age), Ordering::Relaxed);
}

/// An anchor at least [`LEAST_NS`] after another one.
fn anchor_after(first: Anchor) -> Anchor {
    loop {
        let now = Anchor::take();
        if now.monotonic.0 >= first.monotonic.0.saturating_add(LEAST_NS) {
            return now;
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_that_of_the_systems_clock() {
        let [start, end] = [0, 20].map(|millis| {
            std::thread::sleep(std::time::Duration::from_millis(millis));
            Anchor::take()
        });
        let expected = end.monotonic.0 - start.monotonic.0;
        let ns = nanoseconds_between(start.ticks, end.ticks);
        assert!(ns.abs_diff(expected) < expected / 100, "{ns} {expected}");
        assert_eq!(nanoseconds_between(end.ticks, start.ticks), 0);
    }
}
