//! Threads at rest: those that used no processor time since their last sample.
//!
//! Such a thread costs one entry when it falls asleep, which is its last sample, and one when it
//! wakes: "as before until then, at this number of ticks". A thread that sleeps for long also gets
//! an entry after each [`TOLD`], so that captures during the rest, and captures of a short range,
//! contain it. In each tick only [`LOOKS`] of the threads at rest are looked at, in turn, so that
//! thousands cost no more than dozens. When a thread's turn comes, its clock still says how much
//! processor time it used.

use std::time::Duration;

use crate::time::Timestamp;

/// How many threads at rest are looked at in one tick.
pub(super) const LOOKS: usize = 32;
/// How long a rest lasts before an entry records it so far.
const TOLD: Duration = Duration::from_secs(1);

/// The part of a thread's rest that is not recorded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// How many ticks there were at which the thread did the same as before.
    ticks: u64,
    /// The time of the last of these ticks.
    until: Timestamp,
}

impl Rest {
    /// A rest of no ticks.
    pub(super) const fn new() -> Self {
        Self { ticks: 0, until: Timestamp::ZERO }
    }

    /// Adds `ticks` at which the thread did the same as before. `until` is the time of the last
    /// one.
    pub(super) const fn go_on(&mut self, ticks: u64, until: Timestamp) {
        (self.ticks, self.until) = (self.ticks.saturating_add(ticks), until);
    }

    /// Takes what is not recorded yet, for the caller to record.
    pub(super) fn take(&mut self) -> Option<(u64, Timestamp)> {
        let Self { ticks, until } = std::mem::replace(self, Self::new());
        (ticks > 0).then_some((ticks, until))
    }

    /// Whether an entry is due.
    pub(super) const fn is_long(&self, most: u64) -> bool {
        self.ticks >= most
    }
}

/// Ticks of a rest after which an entry is due.
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
