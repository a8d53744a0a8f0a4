//! Timestamps without a clock.

pub use crate::timestamp::Timestamp;

impl Timestamp {
    /// [`Timestamp::ZERO`]: no clock is read.
    #[inline(always)]
    pub fn now() -> Self {
        Self::ZERO
    }
}

/// The clocks of sessions.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockKind {
    /// Nanoseconds.
    Monotonic,
    /// Ticks of the processor.
    CycleCounter,
}

/// [`ClockKind::Monotonic`]: a tick is a nanosecond.
#[doc(hidden)]
pub const fn clock_kind() -> ClockKind {
    ClockKind::Monotonic
}

/// Nanoseconds on the line of a session that does not run.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonotonicNs(pub u64);

/// One instant on two clocks that are not read.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Zero.
    pub ticks: Timestamp,
    /// Zero.
    pub monotonic: MonotonicNs,
}

impl Anchor {
    /// Zeros: no clock is read.
    pub const fn take() -> Self {
        Self {
            ticks: Timestamp::ZERO,
            monotonic: MonotonicNs(0),
        }
    }
}

/// Converts nothing, because a tick is a nanosecond.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct TimeConverter(Anchor);

impl TimeConverter {
    /// A converter from ticks to the same number of nanoseconds.
    pub const fn new(_kind: ClockKind, start: Anchor, _later: Anchor) -> Self {
        Self(start)
    }

    /// The same number.
    pub const fn ticks_in(&self, ns: u64) -> u64 {
        ns
    }

    /// The first anchor.
    pub const fn start(&self) -> Anchor {
        self.0
    }
}
