//! How often threads that run and wait in turn are looked at.
//!
//! Used by `looking` and `observed_waits`. The share of a wait in the life of a thread is estimated
//! from looks. With `n` looks, the standard error of a share `p` is `sqrt(p * (1 - p) / n)`: 50 looks
//! a second have an error of 2 points after 12 s. Looks at threads that run and wait in turn are
//! therefore [`FREQUENT`] apart if they use at most 1 / [`SHARE`] of a processor.
//!
//! A process that looks at its own threads makes its looks rarer after [`ENOUGH`] of them, so that
//! they cost next to nothing in a process that is recorded for days.
//!
//! That threads alternate is remembered for [`MEMORY`]. If the time to the next look depended on the
//! last look alone, waits that are found twice would get too large or too small a part of the time.

use std::time::{Duration, Instant};

/// The average time between two looks at threads that run and wait in turn.
pub(super) const FREQUENT: Duration = Duration::from_millis(5);
/// The average time between two looks, as a multiple of the time that a look takes.
const SHARE: u32 = 50;
/// The number of looks after which the time between two looks grows: in proportion to the time for
/// which threads have alternated.
const ENOUGH: u32 = 2_400;
/// How long threads that have alternated are taken for threads that alternate.
const MEMORY: Duration = Duration::from_secs(1);

/// The average time to the next look at threads that alternate, if a look takes `cost`.
pub(super) fn frequent_pause(cost: Duration) -> Duration {
    cost.saturating_mul(SHARE).max(FREQUENT)
}

/// Whether the threads of a process run and wait in turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alternation {
    /// The last look that has found it.
    noted: Option<Instant>,
    /// For how long threads have alternated so far.
    lasted: Duration,
}

impl Alternation {
    /// Notes that a look has found a thread that waits and has run since the look before.
    pub(super) fn note(&mut self, moment: Instant) {
        let since = self.noted.replace(moment).unwrap_or(moment);
        self.lasted += moment.saturating_duration_since(since).min(MEMORY);
    }

    /// Whether threads alternate.
    pub(super) fn is_found(&self, moment: Instant) -> bool {
        self.noted
            .is_some_and(|noted| moment.saturating_duration_since(noted) < MEMORY)
    }

    /// The average time to the next look of a process at its own threads, if a look takes `cost`.
    pub(super) fn own_pause(&self, cost: Duration) -> Duration {
        frequent_pause(cost).max(self.lasted / ENOUGH)
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::now;
    use super::*;

    #[test]
    fn threads_that_have_alternated_are_looked_at_often_for_a_while() {
        let mut alternation = Alternation::default();
        let moment = now();
        assert!(!alternation.is_found(moment));
        alternation.note(moment);
        assert!(alternation.is_found(moment + MEMORY / 2));
        assert!(!alternation.is_found(moment + MEMORY));
    }

    #[test]
    fn looks_become_rarer_while_threads_alternate_for_long() {
        let mut alternation = Alternation::default();
        let moment = now();
        (0..100).for_each(|turn| alternation.note(moment + MEMORY / 2 * turn));
        let after_50_s = alternation.own_pause(Duration::ZERO);
        assert!(after_50_s > FREQUENT * 4, "{after_50_s:?}");
        alternation.note(moment + MEMORY * 10_000);
        let after_idleness = alternation.own_pause(Duration::ZERO);
        assert!(after_idleness < after_50_s + FREQUENT, "{after_idleness:?}");
    }

    #[test]
    fn expensive_looks_are_rarer() {
        assert_eq!(frequent_pause(Duration::from_micros(10)), FREQUENT);
        assert_eq!(
            frequent_pause(Duration::from_millis(1)),
            Duration::from_millis(50)
        );
    }
}
