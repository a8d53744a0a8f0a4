//! Processes that are dead and have nothing left, beyond the latest of them.
//!
//! A session that lives for days may see a million children. Used by [`super::Processes`], which keeps
//! the latest [`MOST_LISTED`] of the dead by name; what came before is one sum. Invariant: every entry
//! of every process is in a process that is listed or in the sum.

use std::collections::VecDeque;

use profiler_core::ids::PoolId;
use profiler_core::losses::EntryCounts;

/// Processes without data that are kept by name.
pub(crate) const MOST_LISTED: usize = 1000;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    /// Those that are still listed, in the order in which they ended.
    listed: VecDeque<PoolId>,
    sum: EarlierProcesses,
}

/// Processes that ended long ago and left nothing, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlierProcesses {
    /// How many.
    pub(crate) processes: u64,
    /// What became of their entries.
    pub(crate) counts: EntryCounts,
}

impl Earlier {
    /// One more has nothing left. Gives the one that need not be listed any more, if there is one.
    pub(crate) fn add(&mut self, key: PoolId) -> Option<PoolId> {
        self.listed.push_back(key);
        if self.listed.len() > MOST_LISTED { self.listed.pop_front() } else { None }
    }

    /// Somebody still asks for this one: it stays.
    pub(crate) fn keep(&mut self, key: PoolId) {
        self.listed.push_back(key);
    }

    /// This one is not listed any more.
    pub(crate) fn forget(&mut self, counts: EntryCounts) {
        self.sum.processes += 1;
        self.sum.counts += counts;
    }

    /// All that are not listed.
    pub(crate) const fn sum(&self) -> EarlierProcesses {
        self.sum
    }
}
