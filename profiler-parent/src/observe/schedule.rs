//! When batches are due and when pools are read.
//!
//! Used by the reader thread. Batches are due on a fixed grid, so a late batch does not delay the
//! following ones. Pools are read at least as often.

use crate::session_time::SessionNs;
use std::time::Duration;

/// The shortest time between two batches.
const SHORTEST: Duration = Duration::from_millis(5);

/// The schedule of the batches of one observer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    period_ns: i64,
    due: SessionNs,
}

impl Schedule {
    /// The first batch is due one period from now.
    pub(super) fn new(period: Duration, now: SessionNs) -> Self {
        let period_ns = i64::try_from(period.max(SHORTEST).as_nanos()).unwrap_or(i64::MAX);
        Self {
            period_ns,
            due: SessionNs(now.0.saturating_add(period_ns)),
        }
    }

    pub(super) const fn due(&self) -> SessionNs {
        self.due
    }

    pub(super) fn is_due(&self, now: SessionNs) -> bool {
        now >= self.due
    }

    /// Advances to the next point of the grid after `now`, skipping missed points.
    pub(super) fn step(&mut self, now: SessionNs) {
        let late = now.0.saturating_sub(self.due.0).max(0);
        let periods = (late / self.period_ns).saturating_add(1);
        self.due = SessionNs(
            self.due
                .0
                .saturating_add(periods.saturating_mul(self.period_ns)),
        );
    }
}

/// Time between two passes while batches may fill up before they are due and passes are cheap.
const SOON: i64 = 50_000_000;
/// With many processes: interval = 50 × the cost of the last pass, so passes use at most 2 % of a
/// processor.
const COST_FACTOR: i64 = 50;
/// The longest time between two passes, independently of the periods of observers: the pools of
/// dead processes stay open until the next pass.
const LONGEST: i64 = 1_000_000_000;

/// When the next pass is due, independently of scheduled batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    last: SessionNs,
    soon_ns: i64,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            last: SessionNs(0),
            soon_ns: SOON,
        }
    }

    /// Notes the start and the end of a pass.
    pub(super) fn note(&mut self, began: SessionNs, ended: SessionNs) {
        let took = ended.0.saturating_sub(began.0);
        (self.last, self.soon_ns) = (ended, took.saturating_mul(COST_FACTOR).clamp(SOON, LONGEST));
    }

    /// When the next pass is due; sooner if an observer wants batches by their size.
    pub(super) const fn due(&self, by_size: bool) -> SessionNs {
        SessionNs(
            self.last
                .0
                .saturating_add(if by_size { self.soon_ns } else { LONGEST }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t7_passes_run_at_least_once_a_second_and_sooner_for_batches_by_size() {
        let mut pace = Pace::new();
        let at = |ms: i64| SessionNs(ms * MS);
        pace.note(at(1_000), at(1_001));
        assert_eq!((pace.due(true), pace.due(false)), (at(1_051), at(2_001)));
        pace.note(at(2_000), at(2_004));
        assert_eq!(
            pace.due(true),
            at(2_204),
            "passes that cost more are less frequent"
        );
        pace.note(at(3_000), at(9_000));
        assert_eq!((pace.due(true), pace.due(false)), (at(10_000), at(10_000)));
    }

    const MS: i64 = 1_000_000;

    #[test]
    fn t7_a_late_batch_does_not_move_the_grid_of_200_ms() {
        let mut schedule = Schedule::new(Duration::from_millis(200), SessionNs(30 * MS));
        let mut due = Vec::new();
        for now in 0..200 {
            let late = if now == 60 { 350 } else { 0 };
            let now = SessionNs((now * 10 + late) * MS);
            if schedule.is_due(now) {
                due.push(now.0 / MS);
                schedule.step(now);
            }
        }
        assert_eq!(due, [230, 430, 950, 1030, 1230, 1430, 1630, 1830]);
    }

    #[test]
    fn extreme_periods_do_not_overflow() {
        let mut short = Schedule::new(Duration::ZERO, SessionNs(0));
        short.step(SessionNs(i64::MAX));
        let mut long = Schedule::new(Duration::MAX, SessionNs(5));
        long.step(SessionNs(7));
        assert_eq!(long.due(), SessionNs(i64::MAX));
    }
}
