//! Measures the memory that the pools of a session occupy while processes record.
//!
//! Used by the tests of the limit and by its figures. The sizes come from the system (`fstat`), not
//! from the counts of the profiler. A sweep over the pools is not atomic: memory that moves from
//! one process to another during a sweep can be counted twice. Therefore a sweep above the limit
//! only counts if the sweeps directly after it are above the limit, too.

use std::time::Duration;

use profiler_parent::Session;

use crate::patience::{LONG, Stopwatch};

/// Number of sweeps in succession that must be above the limit for the result to count.
const WITNESSES: u32 = 10;

/// The result of the measurements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The highest sum of occupied bytes.
    pub peak: u64,
    /// The number of measurements.
    pub sweeps: u64,
    /// Measurements above the limit that a sweep directly after them did not confirm.
    pub doubted: u64,
}

impl Seen {
    /// Measures once.
    pub fn look(&mut self, session: &Session, limit: u64) {
        let mut held = sweep(session);
        for _ in 1..WITNESSES {
            if held <= limit {
                break;
            }
            held = held.min(sweep(session));
            self.doubted += u64::from(held <= limit);
        }
        self.sweeps += 1;
        self.peak = self.peak.max(held);
    }

    /// Measures repeatedly for this time.
    pub fn look_for(&mut self, time: Duration, session: &Session, limit: u64) {
        self.look_until(time, session, limit, |_| true);
    }

    /// Measures repeatedly for at least `least` and until `is_enough`, but at most for [`LONG`]. On
    /// a loaded machine a single measurement takes long.
    pub fn look_until(
        &mut self,
        least: Duration,
        session: &Session,
        limit: u64,
        is_enough: impl Fn(&Self) -> bool,
    ) {
        let watch = Stopwatch::start();
        while watch.elapsed() < least || !is_enough(self) && watch.elapsed() < LONG {
            self.look(session, limit);
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Returns the bytes that all pools occupy now.
pub fn sweep(session: &Session) -> u64 {
    session
        .processes()
        .iter()
        .map(|process| process.true_bytes)
        .sum()
}
