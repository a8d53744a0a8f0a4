//! What the pools of a session really occupy, while everybody records.
//!
//! Used by the tests of the limit and by its figures. The bytes are what the system says (`fstat`),
//! not what anybody booked. A sweep over the pools is not one instant: memory that moves from one
//! process to another during a sweep could be counted twice, so a sweep that finds more than
//! the limit is believed only if the ones right behind it do, too.

use std::time::Duration;

use profiler_parent::Session;

use crate::patience::{LONG, Stopwatch};

/// Sweeps that must agree before more than the limit is believed.
const WITNESSES: u32 = 3;

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Highest sum of true bytes.
    pub peak: u64,
    /// How often the pools were looked at.
    pub sweeps: u64,
    /// Sweeps that found more than the limit when one right behind them did not.
    pub doubted: u64,
}

impl Seen {
    /// Looks once.
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

    /// Looks for so long.
    pub fn look_for(&mut self, time: Duration, session: &Session, limit: u64) {
        self.look_until(time, session, limit, |_| true);
    }

    /// Looks for at least `least`, and until `is_enough`: on a loaded machine a look takes long.
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

/// The bytes that all pools occupy now.
pub fn sweep(session: &Session) -> u64 {
    session.processes().iter().map(|process| process.true_bytes).sum()
}
