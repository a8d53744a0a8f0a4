//! When the next batch is due: on a fixed grid, so that a late one does not push back all that follow.

use std::time::Duration;

use super::event::SessionNs;

/// The shortest time between two batches.
const SHORTEST: Duration = Duration::from_millis(5);

/// When the batches of one observer are due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    period_ns: i64,
    due: SessionNs,
}

impl Schedule {
    /// The first batch is due one period from now.
    pub(super) fn new(period: Duration, now: SessionNs) -> Self {
        let period_ns = i64::try_from(period.max(SHORTEST).as_nanos()).unwrap_or(i64::MAX);
        Self { period_ns, due: SessionNs(now.0.saturating_add(period_ns)) }
    }

    pub(super) const fn due(&self) -> SessionNs {
        self.due
    }

    pub(super) fn is_due(&self, now: SessionNs) -> bool {
        now >= self.due
    }

    /// The next one is due at the next point of the grid after `now`; those that were missed are left out.
    pub(super) fn step(&mut self, now: SessionNs) {
        let late = now.0.saturating_sub(self.due.0).max(0);
        let periods = (late / self.period_ns).saturating_add(1);
        self.due = SessionNs(self.due.0.saturating_add(periods.saturating_mul(self.period_ns)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    #[test]
    fn t7_batches_are_due_every_200_ms_however_late_one_of_them_was() {
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
    fn no_period_is_too_short_or_too_long() {
        let mut short = Schedule::new(Duration::ZERO, SessionNs(0));
        short.step(SessionNs(i64::MAX));
        let mut long = Schedule::new(Duration::MAX, SessionNs(5));
        long.step(SessionNs(7));
        assert_eq!(long.due(), SessionNs(i64::MAX));
    }
}
