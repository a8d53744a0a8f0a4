//! The type of instants that entries store: the raw count of the session's clock.
//!
//! Compiled with and without the engine. `time` reads the clock and converts counts.

/// An instant on the session's clock: an opaque count that grows with time.
///
/// Two timestamps of the same session may be compared, also across processes. Size: 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    all(feature = "engine", unix),
    derive(serde::Serialize, serde::Deserialize)
)]
#[cfg_attr(all(feature = "engine", unix), serde(transparent))]
pub struct Timestamp(u64);

impl Timestamp {
    /// The earliest timestamp; means "not yet" in shared memory.
    pub const ZERO: Self = Self(0);
    /// The latest timestamp.
    pub const MAX: Self = Self(u64::MAX);

    /// Wraps a raw count, as found in a pool.
    #[inline]
    pub const fn from_raw(ticks: u64) -> Self {
        Self(ticks)
    }

    /// The raw count.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Ticks from `earlier` to `self`, 0 when `earlier` is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
