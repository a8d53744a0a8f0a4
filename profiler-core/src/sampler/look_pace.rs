//! When the threads of an observed process are looked at.
//!
//! Used by `observed_waits`, one [`LookPace`] for each program. The reader asks at each of its
//! passes, and more often for programs whose threads run and wait in turn (`alternation`).
//! Invariants: the time between two looks is at least [`SHORTEST`], and on average at least
//! [`SHARE`] times what a look takes, or `frequent_pause` while threads alternate; after a look
//! that had to leave out threads, it is at least [`SHARE_OF_PART`] times what that look took.
//!
//! If looks take long, the times are chosen at random. If the time to the next look depended on
//! what the last look has found, short waits would get a part of the time of long ones, or the
//! reverse.

use std::time::{Duration, Instant};

use super::alternation::{Alternation, frequent_pause};
use super::observed_look::reader_time;
use super::schedule::{now, random_part};
use crate::time::Timestamp;

/// The shortest time between two looks. The reader's are further apart and have jitter.
const SHORTEST: Duration = Duration::from_millis(2);
/// The average time between two looks, as a multiple of the time that a look takes.
const SHARE: u32 = 100;
/// The least time to the next look if a look had to leave out threads, as such a multiple.
const SHARE_OF_PART: u32 = 10;
/// The average time between two passes of the reader.
const PASS: Duration = Duration::from_millis(20);
/// The weights of the last look in the average cost of looks are 1 of these numbers: the first if
/// it was more expensive. A first look reads unwinding tables, and must not make the next looks
/// rare.
const COST_LOOKS: (u32, u32) = (8, 2);

/// When the next look at a program is due.
#[derive(Debug)]
pub(super) struct LookPace {
    /// The earliest time of the next look.
    next: Instant,
    /// When the reader last asked whether a look is due.
    asked: Instant,
    /// The time that a look takes, on average over the last ones.
    cost: Duration,
    /// When the last look began.
    began: Instant,
    /// The processor time of the reader when it began.
    began_at: Duration,
    /// The part of the look's time that was spent on finding out for whom threads wait. It has a
    /// limit of its own.
    looking_up: Duration,
    /// Whether the last look had to leave out threads.
    is_part: bool,
    alternation: Alternation,
}

impl LookPace {
    pub(super) fn new() -> Self {
        let moment = now();
        Self {
            next: moment,
            asked: moment,
            cost: Duration::ZERO,
            began: moment,
            began_at: Duration::ZERO,
            looking_up: Duration::ZERO,
            is_part: false,
            alternation: Alternation::default(),
        }
    }

    /// Whether a look is due. The probability is the time since the last call as a part of the
    /// average time between two looks.
    pub(super) fn is_due(&mut self) -> bool {
        let moment = now();
        let asked = std::mem::replace(&mut self.asked, moment);
        let since = moment.saturating_duration_since(asked);
        let part = random_part(Timestamp::now());
        let is_chosen = self.is_part || self.average_pause(moment).mul_f64(part) <= since;
        is_chosen && moment >= self.next
    }

    /// The average time between two looks.
    fn average_pause(&self, moment: Instant) -> Duration {
        if self.is_frequent(moment) {
            frequent_pause(self.cost)
        } else {
            self.cost.saturating_mul(SHARE)
        }
    }

    /// Whether looks between the passes are needed: threads run and wait in turn, and a look is
    /// cheap enough to be made more often than the passes.
    pub(super) fn is_frequent(&self, moment: Instant) -> bool {
        self.alternation.is_found(moment) && frequent_pause(self.cost) < PASS
    }

    /// Begins a look; returns the present time.
    pub(super) fn begin(&mut self) -> Instant {
        self.began = now();
        self.began_at = reader_time();
        self.next = self.began + SHORTEST;
        self.began
    }

    /// When the present look began.
    pub(super) const fn began(&self) -> Instant {
        self.began
    }

    /// Notes what the present look has found: whether it had to leave out threads, and whether
    /// threads alternate; and the time for finding out for whom threads wait.
    pub(super) fn note(&mut self, is_part: bool, alternates: bool, looking_up: Duration) {
        (self.is_part, self.looking_up) = (is_part, looking_up);
        if alternates {
            self.alternation.note(self.began);
        }
    }

    /// Ends the present look.
    pub(super) fn end(&mut self) {
        let cost = reader_time().saturating_sub(self.began_at);
        let cost = cost.saturating_sub(std::mem::take(&mut self.looking_up));
        let is_more = cost > self.cost;
        let looks = if is_more { COST_LOOKS.0 } else { COST_LOOKS.1 };
        self.cost = (self.cost * (looks - 1) + cost) / looks;
        let after_part = cost.saturating_mul(SHARE_OF_PART);
        let pause = if self.is_part {
            after_part.max(SHORTEST)
        } else {
            SHORTEST
        };
        self.next = self.began + pause;
    }
}

#[cfg(test)]
mod tests {
    use super::super::alternation::{FREQUENT, LEAST_NOTES};
    use super::*;

    /// A program whose looks take this time, and whose threads run and wait in turn.
    fn alternating(cost: Duration) -> LookPace {
        let mut pace = LookPace::new();
        for _ in 0..LEAST_NOTES {
            pace.begin();
            pace.note(false, true, Duration::ZERO);
        }
        LookPace { cost, ..pace }
    }

    #[test]
    fn cheap_looks_at_threads_that_alternate_are_more_frequent_than_the_passes() {
        let pace = alternating(Duration::from_micros(20));
        assert!(pace.is_frequent(now()));
        assert_eq!(pace.average_pause(now()), FREQUENT);
        let quiet = LookPace::new();
        assert!(!quiet.is_frequent(now()));
    }

    #[test]
    fn expensive_looks_use_a_hundredth_of_a_processor_also_while_threads_alternate() {
        let pace = alternating(Duration::from_millis(1));
        assert!(!pace.is_frequent(now()));
        assert_eq!(pace.average_pause(now()), Duration::from_millis(100));
    }

    #[test]
    fn a_look_is_due_after_its_average_time_and_after_one_that_left_out_threads() {
        let long_ago = now() - Duration::from_millis(200);
        let mut pace = alternating(Duration::from_millis(1));
        (pace.asked, pace.next) = (long_ago, long_ago);
        assert!(pace.is_due(), "twice the average time has passed");
        pace.is_part = true;
        pace.asked = now();
        assert!(pace.is_due());
        pace.next = now() + Duration::from_secs(1);
        assert!(!pace.is_due(), "too early");
    }
}
