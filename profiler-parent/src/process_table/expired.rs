//! Dead processes whose data is gone: the latest are listed, the earlier ones only counted.
//!
//! A session that runs for days may start a million children. Used by the
//! [`ProcessTable`](super::ProcessTable), which lists the latest [`MOST_LISTED`] of these processes
//! by name and adds up the earlier ones. Invariant: every entry of every process is counted in a
//! listed process or in the sum.

use std::collections::VecDeque;

use profiler_core::ids::PoolId;
use profiler_core::internal::entry_counts::EntryCounts;

use super::brief::{BriefLife, BriefRuns, BriefSums};

/// Limit on the listed processes without data.
pub(super) const MOST_LISTED: usize = 1000;

/// The dead processes whose data is gone.
#[derive(Debug, Default)]
pub(super) struct ExpiredProcesses {
    /// The listed processes, in the order in which they were added.
    listed: VecDeque<PoolId>,
    sum: ExpiredSum,
    brief: BriefSums,
}

/// The sum of the processes that are no longer listed, without the brief programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiredSum {
    /// Number of processes.
    pub(crate) processes: u64,
    /// The sum of their entry counts.
    pub(crate) counts: EntryCounts,
}

impl ExpiredProcesses {
    /// Adds a process without data. If too many are listed, removes and returns the oldest.
    pub(super) fn add(&mut self, key: PoolId) -> Option<PoolId> {
        self.listed.push_back(key);
        if self.listed.len() > MOST_LISTED {
            self.listed.pop_front()
        } else {
            None
        }
    }

    /// Lists a process again, because the application holds its handle.
    pub(super) fn keep(&mut self, key: PoolId) {
        self.listed.push_back(key);
    }

    /// Adds the counts of a process that is no longer listed to the sum.
    pub(super) fn forget(&mut self, counts: EntryCounts) {
        self.sum.processes += 1;
        self.sum.counts += counts;
    }

    /// Adds a program that ended before it asked for memory, and is no longer listed.
    pub(super) fn forget_brief(&mut self, name: &str, life: BriefLife) {
        self.brief.add(name, life);
    }

    /// The programs that ended before they asked for memory, and are no longer listed.
    pub(super) fn briefs(&self) -> Vec<(String, BriefRuns)> {
        self.brief.all()
    }

    /// The number of these programs.
    pub(super) fn brief_runs(&self) -> u64 {
        self.brief.runs()
    }

    /// The sum of the other processes that are no longer listed.
    pub(super) const fn sum(&self) -> ExpiredSum {
        self.sum
    }
}
