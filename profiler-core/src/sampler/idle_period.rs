//! Idle threads: threads that used no processor time since their last sample.
//!
//! An idle period costs one entry when the thread falls asleep, which is its last sample, and one
//! when it wakes, which repeats that sample for the number of ticks. In a long idle period an entry
//! is also written after each [`LONGEST_UNRECORDED`], so that captures during the period, and
//! captures of a short range, contain the thread. Each tick checks only [`CHECKS_PER_TICK`] of the
//! idle threads, in turn, so thousands cost no more than dozens. No processor time is lost: a
//! thread's clock still shows it when the thread's turn comes.

use std::time::Duration;

use crate::time::Timestamp;

/// The most idle threads that are checked in one tick.
pub(super) const CHECKS_PER_TICK: usize = 32;
/// The longest idle time without an entry.
const LONGEST_UNRECORDED: Duration = Duration::from_secs(1);

/// The unrecorded part of a thread's idle period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdlePeriod {
    /// The number of ticks at which the thread was idle.
    ticks: u64,
    /// The time of the last of these ticks.
    until: Timestamp,
}

impl IdlePeriod {
    /// An idle period of no ticks.
    pub(super) const fn new() -> Self {
        Self {
            ticks: 0,
            until: Timestamp::ZERO,
        }
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
pub(super) fn most_unrecorded(interval: Duration) -> u64 {
    let ticks = LONGEST_UNRECORDED.as_nanos() / interval.as_nanos().max(1);
    u64::try_from(ticks).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_period_is_recorded_once_and_completely() {
        let mut idle = IdlePeriod::new();
        assert_eq!(idle.take(), None);
        idle.go_on(1, Timestamp::from_raw(5));
        idle.go_on(7, Timestamp::from_raw(9));
        assert!(idle.is_long(8) && !idle.is_long(9));
        assert_eq!(idle.take(), Some((8, Timestamp::from_raw(9))));
        assert_eq!(idle.take(), None);
    }

    #[test]
    fn a_long_idle_period_is_recorded_once_a_second_and_at_most_once_per_tick() {
        assert_eq!(most_unrecorded(Duration::from_millis(1)), 1000);
        assert_eq!(most_unrecorded(Duration::from_secs(5)), 1);
        assert_eq!(most_unrecorded(Duration::ZERO), 1_000_000_000);
    }
}
