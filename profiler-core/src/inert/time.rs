//! Timestamps of no clock.

/// An instant on the clock of a session that does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The earliest timestamp.
    pub const ZERO: Self = Self(0);
    /// The latest timestamp.
    pub const MAX: Self = Self(u64::MAX);

    /// Wraps a raw count.
    pub const fn from_raw(ticks: u64) -> Self {
        Self(ticks)
    }

    /// The raw count.
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// [`Timestamp::ZERO`]: no clock is read.
    #[inline(always)]
    pub fn now() -> Self {
        Self::ZERO
    }

    /// Ticks from `earlier` to `self`, 0 when `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
