//! The sums of a session by name: what processes and groups have done since its start, whether
//! their data is still kept or not.
//!
//! Part of the [`ProcessTable`](super::ProcessTable), which adds the final numbers of a process
//! when it closes the pool of the process, and when it no longer lists the process. `prometheus`
//! adds the present numbers of all other processes at each reading. Invariants: each process is in
//! exactly one of the two; a number never falls; the names are limited, and what has no name of its
//! own is in the sum of the others.

mod bounded;
mod group_sum;
mod process_sum;

use profiler_core::internal::entry_counts::EntryCounts;

use super::Process;
pub(crate) use bounded::{BoundedSums, Sum};
pub(crate) use group_sum::{GroupKey, GroupSum, sums_in_pool};
pub(super) use process_sum::has_started;
pub(crate) use process_sum::{OTHER, ProcessEnd, ProcessName, ProcessSum};

/// The most groups that have sums of their own.
pub(crate) const MOST_GROUPS: usize = 1000;
/// The most names of processes that have sums of their own.
pub(crate) const MOST_NAMES: usize = 200;

/// The final numbers of a process whose pool is closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosedPool {
    pub(crate) counts: EntryCounts,
    /// Its groups, those of the program first.
    pub(crate) groups: Vec<(GroupKey, GroupSum)>,
}

/// The sums of a session. See the head of this file.
#[derive(Debug)]
pub(crate) struct SessionSums {
    pub(crate) groups: BoundedSums<GroupKey, GroupSum>,
    pub(crate) processes: BoundedSums<ProcessName, ProcessSum>,
}

impl Default for SessionSums {
    fn default() -> Self {
        Self {
            groups: BoundedSums::new(MOST_GROUPS),
            processes: BoundedSums::new(MOST_NAMES),
        }
    }
}

impl SessionSums {
    /// Adds the final numbers of a process whose pool is closed.
    pub(super) fn add_pool(&mut self, name: &str, closed: &ClosedPool) {
        let key = ProcessName::new(name);
        self.processes
            .add_gone(&key, &ProcessSum::of_counts(&closed.counts));
        for (key, sum) in &closed.groups {
            self.groups.add_gone(key, sum);
        }
    }

    /// Adds a process that is no longer listed. Its pool has been closed before.
    pub(super) fn add_process(&mut self, process: &Process) {
        let key = ProcessName::new(&process.name);
        self.processes.add_gone(&key, &ProcessSum::of_life(process));
    }
}
