//! The parameters of the first pass over a pool.
//!
//! Made by `profile` for each process, and used by `first_pass`.

use profiler_core::time::Timestamp;
use profiler_gecko::CategoryRow;

use super::tick_detail::WallSeconds;
use super::window::Window;

/// The parameters of the first pass. Only the tick differs between processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstPassTerms<'a> {
    pub(super) window: Window,
    pub(super) categories: &'a [CategoryRow],
    /// Time between two ticks of the sampler, in timestamps; 0 if it is not known.
    pub(super) tick: u64,
    /// The same in nanoseconds.
    pub(super) interval_ns: u64,
    /// The end of the process, or of the recording.
    pub(super) end: Timestamp,
    /// The seconds of which only some values of counters are kept, without overhead; `None` to keep
    /// everything.
    pub(super) downsampling: Option<WallSeconds>,
}

impl FirstPassTerms<'_> {
    /// The weight of a sample that stands for this number of ticks: nanoseconds, or the number if the
    /// interval is not known.
    pub(super) fn weight_of_ticks(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.interval_ns.max(1))
    }

    /// The weight of a sample that stands for a time, in timestamps; that of one tick if the interval
    /// is not known.
    pub(super) fn weight_of_time(&self, time: u64) -> u64 {
        if self.interval_ns == 0 {
            return self.weight_of_ticks(1);
        }
        let ns = u128::from(time) * u128::from(self.interval_ns) / u128::from(self.tick.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}
