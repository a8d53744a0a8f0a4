//! Threads at rest: those that used no processor time since their last sample.
//!
//! Such a thread costs one entry when it falls asleep, its last sample, and one when it wakes: "as before until then, at so many
//! ticks". A thread that sleeps for long gets one a [`TOLD`], so that a capture in the middle, and one of a
//! short range, find it. Of all threads at rest only [`LOOKS`] are looked at in a tick, in turn, so that thousands cost
//! no more than dozens; what a thread used is known from its clock all the same when its turn comes.

use std::time::Duration;

use crate::time::Timestamp;

/// So many threads at rest are looked at in one tick.
pub(super) const LOOKS: usize = 32;
/// How long a rest goes on before an entry tells of it so far.
const TOLD: Duration = Duration::from_secs(1);

/// What has not been told yet of a thread's rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// At so many ticks it was as before.
    ticks: u64,
    /// The last of them.
    until: Timestamp,
}

impl Rest {
    /// Nothing to tell.
    pub(super) const fn new() -> Self {
        Self { ticks: 0, until: Timestamp::ZERO }
    }

    /// It was as before at so many ticks more, of which this is the last.
    pub(super) const fn go_on(&mut self, ticks: u64, until: Timestamp) {
        (self.ticks, self.until) = (self.ticks.saturating_add(ticks), until);
    }

    /// What there is to tell, which is told then.
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
