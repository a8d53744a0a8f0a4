//! The sums of a session by name: what processes and groups have done since its start, whether
//! their data is still kept or not.
//!
//! Part of the [`ProcessTable`](super::ProcessTable), which adds the last numbers of a process when
//! it closes the pool of the process, and when it no longer lists the process ([`deferred`]).
//! `prometheus` adds the present numbers of all other processes at each reading. Invariants: each
//! process counts once, with the greatest numbers that were read of it, so no number falls; the
//! names are limited, and what has no name of its own is in the sum of the others.

mod bounded;
mod deferred;
mod group_sum;
mod process_sum;

use profiler_core::ids::PoolId;
use profiler_core::session::EntryCounts;

pub(crate) use bounded::{BoundedSums, Sum, SumKey};
pub(super) use deferred::{DeferredSums, LastNumbers};
pub(crate) use group_sum::sums_in_pool;
pub use group_sum::{GroupKey, GroupSum};
pub(super) use process_sum::has_started;
pub(crate) use process_sum::plain_name;
pub use process_sum::{OTHER, ProcessEnd, ProcessName, ProcessSum};

/// The most groups that have sums of their own.
pub const MAX_GROUPS: usize = 1000;
/// The most names of processes that have sums of their own.
pub const MAX_NAMES: usize = 200;

/// The last numbers of a process whose pool is closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClosedPool {
    /// Zero if they cannot be read.
    pub(crate) counts: EntryCounts,
    /// Its groups, those of the program first. None if they cannot be read.
    pub(crate) groups: Vec<(GroupKey, GroupSum)>,
}

/// The sums of a session. See the head of this file.
#[derive(Debug)]
pub struct SessionSums {
    /// The sums of groups.
    pub groups: BoundedSums<PoolId, GroupKey, GroupSum>,
    /// The sums of processes, by name.
    pub processes: BoundedSums<PoolId, ProcessName, ProcessSum>,
}

impl Default for SessionSums {
    fn default() -> Self {
        Self {
            groups: BoundedSums::new(MAX_GROUPS),
            processes: BoundedSums::new(MAX_NAMES),
        }
    }
}

impl SessionSums {
    /// Takes the last numbers of a process whose pool is closed. It is still listed.
    fn close_pool(&mut self, key: PoolId, name: &ProcessName, closed: &ClosedPool) {
        let counts = ProcessSum::of_counts(&closed.counts);
        self.processes.read(&key, [(name, &counts)]);
        let groups = closed.groups.iter();
        self.groups
            .finish(&key, groups.map(|(key, sum)| (key, sum)));
    }

    /// Takes the last numbers of a process that is no longer listed.
    fn end_process(&mut self, key: PoolId, name: &ProcessName, life: &ProcessSum) {
        // One that does not record has no name of its own.
        let life = (life.starts > 0).then_some((name, life));
        self.processes.finish(&key, life);
        self.groups.finish(&key, []); // of a pool that was given up before it was used
    }
}
