//! Dead processes whose data is gone: the latest are listed, the earlier ones only counted.
//!
//! A session that runs for days may start a million children. Used by the
//! [`ProcessTable`](super::ProcessTable), which lists the latest [`MAX_LISTED`] of these processes
//! by name and adds up the earlier ones. Programs that ended before they were recorded are listed
//! apart, so that the thousands of a build do not take the places of others. Invariant: every entry
//! of every process is counted in a listed process or in the sum.

use std::collections::VecDeque;

use profiler_core::ids::PoolId;
use profiler_core::session::EntryCounts;

use super::brief::{BriefLife, BriefRuns, BriefSums};

/// Limit on the listed processes without data, and on the listed brief programs.
pub(super) const MAX_LISTED: usize = 1000;

/// The dead processes whose data is gone.
#[derive(Debug, Default)]
pub(super) struct ExpiredProcesses {
    /// The listed processes, in the order in which they were added.
    listed: VecDeque<PoolId>,
    /// The listed brief programs, in the same order.
    listed_brief: VecDeque<PoolId>,
    sum: ExpiredSum,
    brief: BriefSums,
}

/// The sum of the processes that are no longer listed, without the brief programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiredSum {
    /// Number of processes that recorded, and had to give up all data.
    pub(crate) processes: u64,
    /// Number of processes that did not record.
    pub(crate) unprofiled: u64,
    /// The sum of their entry counts.
    pub(crate) counts: EntryCounts,
}

impl ExpiredProcesses {
    /// Adds a process without data. If too many of its kind are listed, removes and returns the
    /// oldest.
    pub(super) fn add(&mut self, key: PoolId, is_brief: bool) -> Option<PoolId> {
        let listed = self.listed(is_brief);
        listed.push_back(key);
        if listed.len() > MAX_LISTED {
            listed.pop_front()
        } else {
            None
        }
    }

    /// Lists a process again, because the application holds its handle.
    pub(super) fn keep(&mut self, key: PoolId, is_brief: bool) {
        self.listed(is_brief).push_back(key);
    }

    const fn listed(&mut self, is_brief: bool) -> &mut VecDeque<PoolId> {
        match is_brief {
            true => &mut self.listed_brief,
            false => &mut self.listed,
        }
    }

    /// Counts a process that did not record, and is no longer listed.
    pub(super) fn forget_unprofiled(&mut self) {
        self.sum.unprofiled += 1;
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
