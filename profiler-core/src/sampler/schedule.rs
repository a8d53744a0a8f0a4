//! When the next tick is due. Pure.
//!
//! A tick that comes late is not made up for by a burst of others: the schedule begins anew. However long ticks take,
//! the sampler sleeps at least a quarter of the interval between two.

use std::time::{Duration, Instant};

/// The system's monotonic time, in which sleeps and deadlines count, whatever clock stamps entries.
#[allow(clippy::disallowed_methods)] // not a timestamp
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The rhythm of ticks.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    next: Instant,
}

impl Schedule {
    /// The first tick is due now.
    pub(super) const fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now }
    }

    /// A tick has ended; how long to sleep.
    pub(super) fn after_tick(&mut self, now: Instant) -> Duration {
        self.next += self.interval;
        if self.next <= now {
            self.next = now + self.interval;
        }
        self.next.saturating_duration_since(now).max(self.interval / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn ticks_that_take_little_keep_the_rhythm() {
        let start = now();
        let mut schedule = Schedule::new(MS, start);
        assert_eq!(schedule.after_tick(start + MS / 10), MS - MS / 10);
        assert_eq!(schedule.after_tick(start + MS + MS / 5), MS - MS / 5);
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let start = now();
        let mut schedule = Schedule::new(MS, start);
        let late = start + MS * 50;
        assert_eq!(schedule.after_tick(late), MS);
        assert_eq!(schedule.after_tick(late + MS), MS, "no burst");
    }

    #[test]
    fn a_quarter_of_the_interval_is_slept_in_any_case() {
        let start = now();
        let mut schedule = Schedule::new(MS, start);
        assert_eq!(schedule.after_tick(start + MS - MS / 100), MS / 4);
    }
}
