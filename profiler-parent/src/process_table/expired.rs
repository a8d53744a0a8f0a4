//! Processes that are dead and whose data is gone, beyond the latest of them.
//!
//! A session that runs for days may start a million children. Used by the
//! [`ProcessTable`](super::ProcessTable), which lists the latest [`MOST_LISTED`] of these processes
//! by name; the processes before them are added up. Invariant: every entry of every process is
//! counted in a listed process or in the sum.

use std::collections::VecDeque;

use profiler_core::ids::PoolId;
use profiler_core::internal::entry_counts::EntryCounts;

/// Processes without data that are listed by name.
pub(super) const MOST_LISTED: usize = 1000;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct ExpiredProcesses {
    /// Those that are still listed, in the order in which they ended.
    listed: VecDeque<PoolId>,
    sum: ExpiredSum,
}

/// The sum of the processes that are no longer listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiredSum {
    /// How many.
    pub(crate) processes: u64,
    /// What became of their entries.
    pub(crate) counts: EntryCounts,
}

impl ExpiredProcesses {
    /// Adds a process that has no data left. Returns the one that need not be listed any more.
    pub(super) fn add(&mut self, key: PoolId) -> Option<PoolId> {
        self.listed.push_back(key);
        if self.listed.len() > MOST_LISTED { self.listed.pop_front() } else { None }
    }

    /// Lists a process again, because the application holds its handle.
    pub(super) fn keep(&mut self, key: PoolId) {
        self.listed.push_back(key);
    }

    /// Counts a process that is not listed any more.
    pub(super) fn forget(&mut self, counts: EntryCounts) {
        self.sum.processes += 1;
        self.sum.counts += counts;
    }

    /// The sum of all that are not listed.
    pub(super) const fn sum(&self) -> ExpiredSum {
        self.sum
    }
}
