//! The clock that stamps entries: the TSC where it is safe, otherwise `CLOCK_MONOTONIC`.
//!
//! Called on every record. Invariants: [`Timestamp::now`] never makes a system call on the
//! TSC, takes no lock and allocates nothing; the kind is decided once per process, unless
//! [`use_clock`] sets the kind that the parent of the session decided.
//!
//! The kernel decides whether the TSC is safe: it uses the TSC as its clock source only if the TSC
//! is invariant, synchronised over all cores, and has not been found to drift.

use std::sync::atomic::{AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

use super::line;
use crate::timestamp::Timestamp;

/// Which clock [`Timestamp`]s count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum ClockKind {
    /// CPU cycle counter (x86-64 `rdtsc`, aarch64 `cntvct_el0`).
    CycleCounter = 1,
    /// `CLOCK_MONOTONIC` in nanoseconds, of the process that started the session.
    Monotonic = 2,
}

impl ClockKind {
    /// The kind with this number, as stored in a pool header.
    pub const fn from_u8(value: u8) -> Option<Self> {
        match value {
            1 => Some(Self::CycleCounter),
            2 => Some(Self::Monotonic),
            _ => None,
        }
    }
}

const UNDECIDED: u8 = 0;
const CYCLES: u8 = ClockKind::CycleCounter as u8;

static KIND: AtomicU8 = AtomicU8::new(UNDECIDED);

impl Timestamp {
    /// Reads the clock. Takes about 9 ns with the cycle counter, 21 ns with `CLOCK_MONOTONIC`
    /// (`figures -- record` measures both).
    #[inline(always)]
    pub fn now() -> Self {
        if KIND.load(Ordering::Relaxed) == CYCLES {
            Self::from_raw(cycles())
        } else {
            Self::now_slow()
        }
    }

    #[inline(never)]
    fn now_slow() -> Self {
        match clock_kind() {
            ClockKind::CycleCounter => Self::from_raw(cycles()),
            ClockKind::Monotonic => Self::from_raw(line::now_ns()),
        }
    }

    /// The next timestamp, one tick later.
    pub(crate) const fn next(self) -> Self {
        Self::from_raw(self.raw().saturating_add(1))
    }
}

/// The clock in use in this process; decides it at the first call.
pub fn clock_kind() -> ClockKind {
    if let Some(kind) = ClockKind::from_u8(KIND.load(Ordering::Relaxed)) {
        return kind;
    }
    let kind = best_clock();
    // Lost race: the other thread decided the same, or `use_clock` set the kind.
    let _ = KIND.compare_exchange(UNDECIDED, kind as u8, Ordering::Relaxed, Ordering::Relaxed);
    ClockKind::from_u8(KIND.load(Ordering::Relaxed)).unwrap_or(kind)
}

/// The fastest clock that is safe on this machine, regardless of the clock in use.
pub fn best_clock() -> ClockKind {
    if cycle_counter_is_safe() {
        ClockKind::CycleCounter
    } else {
        ClockKind::Monotonic
    }
}

/// Makes this process use the clock that the session's parent chose.
///
/// Timestamps taken before with another kind are meaningless afterwards, so this is called
/// before anything is recorded: by the attach to a pool, and by tests that force the fallback.
pub fn use_clock(kind: ClockKind) {
    KIND.store(kind as u8, Ordering::Relaxed);
}

#[cfg(all(target_os = "linux", not(profiler_portable), target_arch = "x86_64"))]
fn cycle_counter_is_safe() -> bool {
    profiler_sys::read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(all(target_os = "linux", not(profiler_portable), target_arch = "aarch64"))]
fn cycle_counter_is_safe() -> bool {
    // The generic timer is architected: constant rate, synchronised, readable at EL0 on Linux.
    profiler_sys::read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|source| source.trim() == "arch_sys_counter")
}

#[cfg(not(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn cycle_counter_is_safe() -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
fn cycles() -> u64 {
    // SAFETY: rdtsc exists on every x86-64 CPU and touches no memory. If the kernel forbids it
    // (PR_SET_TSC), the TSC also stops being the clock source, and this code is not reached.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[allow(unsafe_code)]
fn cycles() -> u64 {
    let count: u64;
    // SAFETY: reads a counter register that Linux makes readable at EL0; no memory, no flags.
    unsafe {
        core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags))
    };
    count
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn cycles() -> u64 {
    line::now_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn now_never_goes_backwards_on_one_thread() {
        let mut last = Timestamp::now();
        for _ in 0..10_000 {
            let next = Timestamp::now();
            assert!(next >= last);
            last = next;
        }
        assert!(last.raw() > 0);
    }

    #[test]
    fn kinds_survive_the_trip_through_a_byte() {
        for kind in [ClockKind::CycleCounter, ClockKind::Monotonic] {
            assert_eq!(ClockKind::from_u8(kind as u8), Some(kind));
        }
        assert_eq!(ClockKind::from_u8(0), None);
        assert_eq!(ClockKind::from_u8(3), None);
    }
}
