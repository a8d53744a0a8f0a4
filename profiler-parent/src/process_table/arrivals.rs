//! Processes that arrive by themselves: a capture waits until those are in the table that have.
//!
//! Part of the [`ProcessTable`]. The threads that meet such processes set a function for the wait.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::ProcessTable;

/// Waits until the processes that have arrived are in the table. Returns the number of processes
/// that are not.
#[derive(Clone)]
pub(super) struct Arrivals(Arc<dyn Fn() -> u64 + Send + Sync>);

impl fmt::Debug for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

/// Who meets processes that arrive by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivalSource {
    /// The join thread.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    Joining,
    /// The reader of observed programs.
    #[cfg(observing)]
    Observed,
}

impl ProcessTable {
    /// Sets a function that [`Self::await_arrivals`] calls. It waits for a limited time, and returns
    /// the number of processes that have arrived and are not in the table.
    pub(crate) fn set_arrivals(
        &self,
        source: ArrivalSource,
        wait: impl Fn() -> u64 + Send + Sync + 'static,
    ) {
        self.clear_arrivals(source);
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.push((source, Arrivals(Arc::new(wait))));
    }

    /// Forgets the function of [`Self::set_arrivals`].
    pub(crate) fn clear_arrivals(&self, source: ArrivalSource) {
        let mut arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.retain(|(known, _)| *known != source);
    }

    /// Waits, for a limited time, until all processes are listed that have arrived by themselves
    /// until now.
    pub(crate) fn await_arrivals(&self) {
        let arrivals = self.arrivals.lock();
        let arrivals = arrivals.unwrap_or_else(PoisonError::into_inner).clone();
        let missed = arrivals.iter().map(|(_, Arrivals(wait))| wait());
        self.missed_arrivals.store(missed.sum(), Ordering::Relaxed);
    }

    /// The processes that had arrived at the last wait and were not in the table after it.
    pub(crate) fn missed_arrivals(&self) -> u64 {
        self.missed_arrivals.load(Ordering::Relaxed)
    }
}
