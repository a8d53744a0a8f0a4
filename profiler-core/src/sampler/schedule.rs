//! Computes when the sampler's next tick is due. [`Schedule`] reads no clock: the caller passes the
//! time.
//!
//! Ticks missed because of a late tick are not made up for: the schedule restarts from the late
//! tick. The sampler sleeps for at least a quarter of the interval between two ticks, even if ticks
//! take long.

use std::time::{Duration, Instant};

use crate::time::Timestamp;

/// The system's monotonic time, used for sleeps and deadlines. Entries may be stamped by another
/// clock.
#[allow(clippy::disallowed_methods)] // not a timestamp
pub(super) fn now() -> Instant {
    Instant::now()
}

/// A duration between 75 % and 125 % of `pause`, on average `pause`. The jitter prevents passes from
/// synchronizing with periodic work of the program.
pub(super) fn jittered(pause: Duration, at: Timestamp) -> Duration {
    pause - pause / 4 + (pause / 2).mul_f64(random_part(at))
}

/// A number from 0 to 1. The numbers of successive times are unrelated.
pub(super) fn random_part(at: Timestamp) -> f64 {
    // Fibonacci hashing (Knuth, The Art of Computer Programming, 6.4): the highest bits of the
    // product depend on all bits of the time.
    let part = at.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    f64::from(u16::try_from(part).unwrap_or(0)) / f64::from(1_u32 << 16)
}

/// The schedule of ticks.
#[derive(Debug)]
pub(super) struct Schedule {
    interval: Duration,
    next: Instant,
}

impl Schedule {
    /// Makes a schedule whose first tick is due now.
    pub(super) const fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            next: now,
        }
    }

    /// Called when a tick has ended. Returns how long to sleep.
    pub(super) fn after_tick(&mut self, now: Instant) -> Duration {
        self.next += self.interval;
        if self.next <= now {
            self.next = now + self.interval;
        }
        self.next
            .saturating_duration_since(now)
            .max(self.interval / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn short_ticks_keep_the_interval() {
        let start = now();
        let mut schedule = Schedule::new(MS, start);
        assert_eq!(schedule.after_tick(start + MS / 10), MS - MS / 10);
        assert_eq!(schedule.after_tick(start + MS + MS / 5), MS - MS / 5);
    }

    #[test]
    fn jittered_pauses_are_spread_evenly_around_the_pause() {
        let pauses = (0..1000).map(|n| jittered(MS * 40, Timestamp::from_raw(n * 7919)));
        let pauses: Vec<Duration> = pauses.collect();
        assert!(
            pauses
                .iter()
                .all(|pause| (MS * 30..=MS * 50).contains(pause))
        );
        let mean = pauses.iter().sum::<Duration>() / 1000;
        assert!((MS * 39..MS * 41).contains(&mean), "{mean:?}");
        let short = pauses.iter().filter(|pause| **pause < MS * 35);
        assert!((200..300).contains(&short.count()));
    }

    #[test]
    fn missed_ticks_are_not_made_up_for() {
        let start = now();
        let mut schedule = Schedule::new(MS, start);
        let late = start + MS * 50;
        assert_eq!(schedule.after_tick(late), MS);
        assert_eq!(schedule.after_tick(late + MS), MS, "no burst");
    }

    #[test]
    fn the_sampler_sleeps_for_at_least_a_quarter_of_the_interval() {
        let start = now();
        let mut schedule = Schedule::new(MS, start);
        assert_eq!(schedule.after_tick(start + MS - MS / 100), MS / 4);
    }
}
