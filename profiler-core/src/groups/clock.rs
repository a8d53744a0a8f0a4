//! The clocks that measure groups, behind a trait so that tests can inject their own.
//!
//! Called by the stopwatch. Ticks are the session's timestamps; processor time belongs to the
//! calling thread. The tick rate is relearned each time the session's age has doubled, so it is as
//! exact as the age allows from the first millisecond on. Invariant: reading ticks makes no system
//! call where `Timestamp::now` makes none; reading processor time makes one.

use crate::sync::fixed::{AtomicU64, Ordering};
use crate::sys;
use crate::time::{Anchor, SessionClock, Timestamp};

/// One reading of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) ticks: u64,
    /// The processor that was read; readings of two processors cannot be compared. 0 for a clock
    /// that is the same on all processors.
    pub(crate) processor: u32,
}

impl Reading {
    pub(crate) const ZERO: Self = Self {
        ticks: 0,
        processor: 0,
    };
}

/// The clock that a stopwatch reads.
pub(crate) trait Clock {
    fn read(&self) -> Reading;

    /// Processor time of the calling thread in nanoseconds; `None` where the system has none.
    fn cpu_ns(&self) -> Option<u64>;

    /// Converts `ticks` to nanoseconds.
    fn ns_of(&self, ticks: u64) -> u64;

    /// Nanoseconds from the session's start to a reading.
    fn session_ns(&self, reading: Reading) -> u64;

    /// Must be called before readings up to `now` are converted. Costs one load, and about a
    /// microsecond each time the session's age has doubled.
    fn keep_exact(&self, now: Reading);
}

/// The clock of the running session.
///
/// Its readings name no processor: the cycle counter is used only where the kernel guarantees that
/// all processors count alike ([`crate::time`]), and the other clock is the kernel's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionTime;

/// Fractional bits of the rate in nanoseconds per tick.
const SHIFT: u32 = 32;

static RATE: AtomicU64 = AtomicU64::new(1 << SHIFT);
static START: AtomicU64 = AtomicU64::new(0);
static START_MONOTONIC: AtomicU64 = AtomicU64::new(0);
/// When the rate must be relearned.
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Called when a session begins.
pub(crate) fn begin_session(clock: &SessionClock) {
    START.store(clock.start.ticks.raw(), Ordering::Relaxed);
    START_MONOTONIC.store(clock.start.monotonic.0, Ordering::Relaxed);
    learn(Anchor::take());
}

/// Learns the rate from the interval between the session's start and now.
fn learn(now: Anchor) {
    let start = START.load(Ordering::Relaxed);
    let ticks = now.ticks.raw().saturating_sub(start);
    let ns = now
        .monotonic
        .0
        .saturating_sub(START_MONOTONIC.load(Ordering::Relaxed));
    if ticks > 0 && ns > 0 {
        let rate = (u128::from(ns) << SHIFT) / u128::from(ticks);
        RATE.store(u64::try_from(rate).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
    NEXT.store(
        now.ticks.raw().saturating_add(ticks.max(1)),
        Ordering::Relaxed,
    );
}

impl Clock for SessionTime {
    #[inline]
    fn read(&self) -> Reading {
        Reading {
            ticks: Timestamp::now().raw(),
            processor: 0,
        }
    }

    fn cpu_ns(&self) -> Option<u64> {
        sys::thread_cpu_ns()
    }

    fn ns_of(&self, ticks: u64) -> u64 {
        let ns = (u128::from(ticks) * u128::from(RATE.load(Ordering::Relaxed))) >> SHIFT;
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn session_ns(&self, reading: Reading) -> u64 {
        self.ns_of(reading.ticks.saturating_sub(START.load(Ordering::Relaxed)))
    }

    fn keep_exact(&self, now: Reading) {
        if now.ticks >= NEXT.load(Ordering::Relaxed) {
            learn(Anchor::take());
        }
    }
}
