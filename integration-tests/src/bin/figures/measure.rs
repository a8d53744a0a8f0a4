//! How things are measured: medians of rounds, a clock that is not the one measured, cores.
//!
//! Used by every group. Invariants: what is compared is measured in the same round, so a
//! machine that changes its pace changes both; a ratio is the median of the rounds' ratios.

use std::hint::black_box;

use profiler_core::time::{ClockKind, Timestamp, clock_kind};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The middle value; the mean of the two middle ones of an even number. NaN of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (below, above) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    match (sorted.get(below), sorted.get(above)) {
        (Some(below), Some(above)) => (below + above) / 2.0,
        _ => f64::NAN,
    }
}

/// The median of the ratios, pair by pair.
pub(crate) fn median_ratio(values: &[f64], to: &[f64]) -> f64 {
    let ratios: Vec<f64> = values.iter().zip(to).map(|(value, to)| value / to).collect();
    median(&ratios)
}

/// Nanoseconds of `CLOCK_MONOTONIC`: read twice per batch, so its own cost does not show.
pub(crate) fn monotonic_ns() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Nanoseconds that `body` takes.
pub(crate) fn ns_of(body: impl FnOnce()) -> f64 {
    let start = monotonic_ns();
    body();
    monotonic_ns() - start
}

/// Nanoseconds per call of `body`, called `count` times in a loop.
#[inline(always)]
pub(crate) fn ns_each(count: u32, mut body: impl FnMut()) -> f64 {
    let whole = ns_of(|| {
        for number in 0..count {
            black_box(number);
            body();
        }
    });
    whole / f64::from(count)
}

/// Nanoseconds per bare read of the clock that stamps entries.
#[inline(never)]
pub(crate) fn clock_read_ns(count: u32) -> f64 {
    match clock_kind() {
        ClockKind::CycleCounter => ns_each(count, || {
            black_box(bare_cycles());
        }),
        ClockKind::Monotonic => ns_each(count, || {
            black_box(Timestamp::now());
        }),
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
fn bare_cycles() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn bare_cycles() -> Timestamp {
    Timestamp::now()
}

/// The cores that this process may use.
pub(crate) fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

/// Keeps the calling thread on one core until it is dropped.
///
/// Threads inherit the pin of their maker: start what should run elsewhere before.
#[derive(Debug)]
pub(crate) struct Pinned(Option<CpuSet>);

/// Pins the calling thread to a core; without permission it stays where it is.
pub(crate) fn pin_to(core: usize) -> Pinned {
    let before = sched_getaffinity(None).ok();
    let mut only = CpuSet::new();
    only.set(core);
    let _ = sched_setaffinity(None, &only);
    Pinned(before)
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
        assert_eq!(median_ratio(&[2.0, 9.0, 4.0], &[1.0, 3.0, 4.0]), 2.0);
    }
}
