//! Tools for measurements: medians of rounds, a clock that is not the measured one, pinning to
//! cores.
//!
//! Used by every group. Invariants: values that are compared are measured in the same round, so a
//! change of the machine's speed affects both. A ratio is the median of the ratios per round.

use std::hint::black_box;

use anyhow::{Context, Result};
use profiler_core::time::{ClockKind, Timestamp, clock_kind};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// The growth of this process's memory, at its highest. One at a time.
#[derive(Debug)]
pub struct PeakMemory {
    before_kib: f64,
}

impl PeakMemory {
    /// Begins at the present memory.
    ///
    /// # Errors
    /// When the system does not let a process reset its peak.
    pub fn begin() -> Result<Self> {
        std::fs::write("/proc/self/clear_refs", "5").context("cannot reset the peak of memory")?;
        let before_kib = status_kib("VmRSS:")?;
        Ok(Self { before_kib })
    }

    /// The growth since the beginning, in MiB.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn growth_mib(&self) -> Result<f64> {
        Ok((status_kib("VmHWM:")? - self.before_kib) / 1024.0)
    }
}

fn status_kib(key: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .context("no such line")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// Returns the middle value, or the mean of the two middle values of an even number. Returns NaN
/// for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = sorted.len().saturating_sub(1) / 2;
    let above = sorted.len() / 2;
    match (sorted.get(below), sorted.get(above)) {
        (Some(below), Some(above)) => (below + above) / 2.0,
        _ => f64::NAN,
    }
}

/// Returns the median of the ratios of corresponding values.
pub fn median_ratio(values: &[f64], to: &[f64]) -> f64 {
    let ratios: Vec<f64> = values
        .iter()
        .zip(to)
        .map(|(value, to)| value / to)
        .collect();
    median(&ratios)
}

/// Returns the nanoseconds of `CLOCK_MONOTONIC`. It is read twice per batch, so its own cost does
/// not show.
pub fn monotonic_ns() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}

/// Returns the nanoseconds that `body` takes.
pub fn ns_of(body: impl FnOnce()) -> f64 {
    let start = monotonic_ns();
    body();
    monotonic_ns() - start
}

/// Returns the nanoseconds of processor time that `body` takes on the calling thread, and how often
/// the thread gave up its core voluntarily. If it never did, the time is the complete cost of
/// `body`, at any load of the machine.
pub fn cpu_ns_of(body: impl FnOnce()) -> (f64, u64) {
    let cpu_ns = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let waits = own_waits();
    let start = cpu_ns();
    body();
    let took = cpu_ns() - start;
    (took, own_waits() - waits)
}

/// Returns how often the calling thread has waited: its voluntary context switches.
fn own_waits() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

/// Returns the nanoseconds per call of `body`, called `count` times in a loop.
#[inline(always)]
pub fn ns_each(count: u32, mut body: impl FnMut()) -> f64 {
    let whole = ns_of(|| {
        for number in 0..count {
            black_box(number);
            body();
        }
    });
    whole / f64::from(count)
}

/// Returns the nanoseconds per bare read of the clock that stamps entries.
#[inline(never)]
pub fn clock_read_ns(count: u32) -> f64 {
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

/// Returns the cores that this process may use.
pub fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}

/// Keeps the calling thread on one core until the value is dropped.
///
/// New threads inherit the pin. Threads that must run elsewhere have to be started before.
#[derive(Debug)]
pub struct Pinned(Option<CpuSet>);

/// Pins the calling thread to a core. Without permission the thread is not pinned.
pub fn pin_to(core: usize) -> Pinned {
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
