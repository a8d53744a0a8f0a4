//! Idle threads: those that used no processor time since their last sample.
//!
//! An idle period costs one entry when the thread falls asleep, which is its last sample, and one
//! when it wakes, which repeats that sample for the number of ticks. In a long idle period an entry
//! is also written after each [`TOLD`], so that captures during the period, and captures of a short
//! range, contain the thread. Each tick checks only [`LOOKS`] of the idle threads, in turn, so
//! thousands cost no more than dozens. A thread's clock still shows the processor time it used when
//! its turn comes.
//! processor time it used.

use std::time::Duration;

use crate::time::Timestamp;

/// The most idle threads that are checked in one tick.
pub(super) const LOOKS: usize = 32;
/// The longest idle time without an entry.
const TOLD: Duration = Duration::from_secs(1);

/// The unrecorded part of a thread's idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// The number of ticks at which the thread was idle.
    ticks: u64,
    /// The time of the last of these ticks.
    until: Timestamp,
}

impl Rest {
    /// An idle period of no ticks.
    pub(super) const fn new() -> Self {
        Self { ticks: 0, until: Timestamp::ZERO }
    }

    /// Adds `ticks` at which the thread was idle. `until` is the time of the last one.
    pub(super) const fn go_on(&mut self, ticks: u64, until: Timestamp) {
        (self.ticks, self.until) = (self.ticks.saturating_add(ticks), until);
    }

    /// Takes the unrecorded part, for the caller to record.
    pub(super) fn take(&mut self) -> Option<(u64, Timestamp)> {
        let Self { ticks, until } = std::mem::replace(self, Self::new());
        (ticks > 0).then_some((ticks, until))
    }

    /// Whether an entry is due.
    pub(super) const fn is_long(&self, most: u64) -> bool {
        self.ticks >= most
    }
}

/// The number of idle ticks after which an entry is due.
pub(super) fn most_untold(interval: Duration) -> u64 {
    let ticks = TOLD.as_nanos() / interval.as_nanos().max(1);
    u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_told_once_and_whole() {
        let mut rest = Rest::new();
        assert_eq!(rest.take(), None);
        rest.go_on(1, Timestamp::from_raw(5));
        rest.go_on(7, Timestamp::from_raw(9));
        assert!(rest.is_long(8) && !rest.is_long(9));
        assert_eq!(rest.take(), Some((8, Timestamp::from_raw(9))));
        assert_eq!(rest.take(), None);
    }

    #[test]
    fn a_long_rest_is_told_of_once_a_second_and_not_more_often_than_there_are_ticks() {
        assert_eq!(most_untold(Duration::from_millis(1)), 1000);
        assert_eq!(most_untold(Duration::from_secs(5)), 1);
        assert_eq!(most_untold(Duration::ZERO), 1_000_000_000);
    }
}
