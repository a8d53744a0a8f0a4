//! How busy a worker was between two readings.
//!
//! Used by the reader of a runtime; pure. tokio publishes the busy time of a worker when the worker
//! parks, and after a number of polls. So a worker that is inside of a long poll seems to be idle:
//! its busy time does not change. Its number of parks tells that it is not: the number is odd while
//! the worker is parked.

use std::time::Duration;

/// What tokio publishes about a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerReading {
    pub(crate) busy: Duration,
    /// How often the worker has parked or unparked.
    pub(crate) parks_and_unparks: u64,
}

impl WorkerReading {
    const fn is_parked(self) -> bool {
        self.parks_and_unparks % 2 == 1
    }
}

/// The previous reading of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkerLoad(WorkerReading);

impl WorkerLoad {
    /// How busy the worker was since the previous reading, in percent. `elapsed_ns` is the time
    /// since then. `is_driven` says that a thread drives the worker whenever it is not parked, as
    /// the workers of a runtime with several threads.
    pub(crate) fn percent(
        &mut self,
        reading: WorkerReading,
        elapsed_ns: u64,
        is_driven: bool,
    ) -> i64 {
        let before = std::mem::replace(&mut self.0, reading);
        if elapsed_ns > 0 && reading == before && is_driven && !reading.is_parked() {
            return 100;
        }
        let busy = reading.busy.saturating_sub(before.busy).as_nanos();
        let percent = (busy * 100).checked_div(u128::from(elapsed_ns));
        i64::try_from(percent.unwrap_or(0)).unwrap_or(100).min(100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(busy_ms: u64, parks_and_unparks: u64) -> WorkerReading {
        WorkerReading {
            busy: Duration::from_millis(busy_ms),
            parks_and_unparks,
        }
    }

    #[test]
    fn busy_time_is_a_share_of_the_time_between_two_readings() {
        let mut load = WorkerLoad(reading(500, 3));
        assert_eq!(load.percent(reading(750, 5), SECOND, true), 25);
        assert_eq!(load.percent(reading(750, 5), SECOND, true), 0, "parked");
        assert_eq!(
            load.percent(reading(3000, 7), SECOND, true),
            100,
            "published late"
        );
        assert_eq!(
            load.percent(reading(3001, 9), 0, true),
            0,
            "no time has passed"
        );
    }

    #[test]
    fn a_worker_that_is_inside_of_a_long_poll_is_busy() {
        let mut load = WorkerLoad(reading(500, 4));
        assert_eq!(load.percent(reading(500, 4), SECOND, true), 100);
        let mut load = WorkerLoad::default();
        assert_eq!(load.percent(reading(0, 0), 0, true), 0, "the first reading");
        assert_eq!(
            load.percent(reading(0, 0), SECOND, true),
            100,
            "its first poll is long"
        );
    }

    #[test]
    fn a_worker_that_no_thread_drives_is_idle() {
        let mut load = WorkerLoad(reading(500, 4));
        assert_eq!(load.percent(reading(500, 4), SECOND, false), 0);
    }
}
