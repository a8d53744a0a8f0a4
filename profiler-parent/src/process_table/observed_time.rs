//! How much of the processor time of the observed processes is in samples, and in samples with
//! stacks.
//!
//! Part of the [`ProcessTable`]. The reader of observed programs notes the time of each process, and
//! adds it up. Captures write both into the profile's log, and the sum into its `meta`; the live page
//! shows both.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use profiler_core::ids::PoolId;

use super::ProcessTable;

/// Processor time of observed processes, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObservedTime {
    /// The time that the system accounts to them.
    pub(crate) used_ns: u64,
    /// The time in samples, with or without stacks.
    pub(crate) recorded_ns: u64,
    /// The time in samples with stacks.
    pub(crate) sampled_ns: u64,
}

impl ObservedTime {
    /// The part of the time that is in samples, in percent. `None` without time.
    #[cfg(feature = "live")]
    #[allow(clippy::cast_precision_loss)] // shown with two digits
    pub(crate) fn recorded_pct(&self) -> Option<f64> {
        (self.used_ns > 0).then(|| self.recorded_ns as f64 * 100.0 / self.used_ns as f64)
    }

    /// The sum of both.
    #[cfg(observing)]
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            used_ns: self.used_ns.saturating_add(other.used_ns),
            recorded_ns: self.recorded_ns.saturating_add(other.recorded_ns),
            sampled_ns: self.sampled_ns.saturating_add(other.sampled_ns),
        }
    }
}

impl ProcessTable {
    /// Notes the time of all observed processes up to now.
    #[cfg(observing)]
    pub(crate) fn set_observed_time(&self, time: ObservedTime) {
        let noted = self.observed_time.lock();
        *noted.unwrap_or_else(PoisonError::into_inner) = Some(time);
    }

    /// Notes the times of some observed processes up to now.
    #[cfg(observing)]
    pub(crate) fn set_times(&self, times: impl Iterator<Item = (PoolId, ObservedTime)>) {
        let mut all = self.lock();
        for (key, time) in times {
            if let Some(process) = all.get_mut(&key) {
                process.time = Some(time);
            }
        }
    }

    /// The processor time of an observed process at the latest reading.
    pub(crate) fn time_of(&self, key: PoolId) -> Option<ObservedTime> {
        self.lock().get(&key).and_then(|process| process.time)
    }

    /// Notes the number of files of observed programs that are not read yet.
    #[cfg(observing)]
    pub(crate) fn set_unread_files(&self, number: u64) {
        self.unread_files.store(number, Ordering::Relaxed);
    }

    /// The number of files of observed programs that are not read yet.
    pub(crate) fn unread_files(&self) -> u64 {
        self.unread_files.load(Ordering::Relaxed)
    }

    /// Notes that programs can make no files at present.
    #[cfg(observing)]
    pub(crate) fn note_full_directory(&self) {
        self.had_full_directory.store(true, Ordering::Relaxed);
    }

    /// Whether programs could make no files at some time: those that began then are not observed.
    pub(crate) fn had_full_directory(&self) -> bool {
        self.had_full_directory.load(Ordering::Relaxed)
    }

    /// Waits, for a short time, while there are files of observed programs that are not read yet.
    pub(crate) fn await_reader(&self) {
        let mut pauses = 0..20;
        while self.unread_files() > 0 && pauses.next().is_some() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The time of all observed processes; `None` if none was observed.
    pub(crate) fn observed_time(&self) -> Option<ObservedTime> {
        let noted = self.observed_time.lock();
        *noted.unwrap_or_else(PoisonError::into_inner)
    }
}
