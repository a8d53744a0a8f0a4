//! Computes when the next sample is due, and the time since the last one. Reads no clock: the
//! caller passes the ticks.
//!
//! Due times are multiples of the interval (the grid); late polls do not move them. A pause moves
//! the due time, and is counted separately from the sampled time.

use crate::time::Timestamp;

/// The due time of the next sample, and the pauses since the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct SafepointSchedule {
    /// In ticks; not 0.
    interval: u64,
    due: Timestamp,
    last: Timestamp,
    paused_since: Option<Timestamp>,
    /// Ticks of pauses since the last sample.
    paused: u64,
}

/// The result of taking a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The end of all pauses since the last sample, as if they had followed that sample at once;
    /// `None` if there were none.
    pub(super) pause_until: Option<Timestamp>,
    /// The time of the sample.
    pub(super) at: Timestamp,
}

impl SafepointSchedule {
    /// A schedule that begins now.
    pub(super) fn new(interval: u64, now: Timestamp) -> Self {
        let interval = interval.max(1);
        Self {
            interval,
            due: after(now, interval),
            last: now,
            paused_since: None,
            paused: 0,
        }
    }

    /// Whether a sample is due.
    #[inline]
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.due && self.paused_since.is_none()
    }

    /// Begins a pause, unless one is in progress.
    pub(super) fn suspend(&mut self, now: Timestamp) {
        self.paused_since.get_or_insert(now);
    }

    /// Ends the pause, if there is one.
    pub(super) fn resume(&mut self, now: Timestamp) {
        if let Some(since) = self.paused_since.take() {
            let pause = now.since(since);
            self.paused = self.paused.saturating_add(pause);
            self.due = Timestamp::from_raw(self.due.raw().saturating_add(pause));
        }
    }

    /// Takes a sample; the next is due at the next grid point.
    pub(super) fn take(&mut self, now: Timestamp) -> Taken {
        // If the clock went back, use the last time.
        let at = now.max(self.last);
        let pause = std::mem::take(&mut self.paused).min(at.since(self.last));
        let pause_until =
            (pause > 0).then(|| Timestamp::from_raw(self.last.raw().saturating_add(pause)));
        (self.last, self.due) = (at, after(at, self.interval));
        Taken { pause_until, at }
    }
}

/// The next grid point.
fn after(now: Timestamp, interval: u64) -> Timestamp {
    let ticks = now.raw();
    Timestamp::from_raw(ticks.saturating_add(interval - ticks % interval))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn at(ticks: u64) -> Timestamp {
        Timestamp::from_raw(ticks)
    }

    #[test]
    fn x5_a_late_poll_is_one_sample_and_the_next_is_due_on_the_grid() {
        let mut grid = SafepointSchedule::new(100, at(1030));
        assert!(!grid.is_due(at(1099)) && grid.is_due(at(1100)));
        assert_eq!(
            grid.take(at(1101)),
            Taken {
                pause_until: None,
                at: at(1101)
            }
        );
        assert!(!grid.is_due(at(1199)) && grid.is_due(at(1200)));
        // Forty intervals in native code.
        grid.take(at(5210));
        assert!(
            !grid.is_due(at(5299)) && grid.is_due(at(5300)),
            "missed samples are not made up for"
        );
        grid.take(at(5300));
        assert!(
            !grid.is_due(at(5300)),
            "a sample on the grid is followed by one an interval later"
        );
    }

    #[test]
    fn x6_a_pause_moves_the_due_time_and_is_counted_apart() {
        let mut grid = SafepointSchedule::new(100, at(1000));
        grid.suspend(at(1040));
        grid.suspend(at(1060));
        assert!(!grid.is_due(at(9000)), "nothing is due meanwhile");
        grid.resume(at(9040));
        grid.resume(at(9050));
        assert!(
            !grid.is_due(at(9099)) && grid.is_due(at(9100)),
            "60 ticks were left"
        );
        let taken = grid.take(at(9105));
        assert_eq!(
            taken,
            Taken {
                pause_until: Some(at(9000)),
                at: at(9105)
            },
            "8000 ticks, and 105 that count"
        );
        assert_eq!(grid.take(at(9205)).pause_until, None, "once");
    }

    #[test]
    fn a_clock_that_goes_back_stands_still() {
        let mut grid = SafepointSchedule::new(0, at(1000));
        grid.suspend(at(1000));
        grid.resume(at(900));
        assert_eq!(
            grid.take(at(900)),
            Taken {
                pause_until: None,
                at: at(1000)
            }
        );
        assert_eq!(SafepointSchedule::new(7, at(u64::MAX)).due, Timestamp::MAX);
    }
}
