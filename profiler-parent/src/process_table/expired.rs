//! Dead processes whose data is gone: the latest are listed, the earlier ones only counted.
//!
//! A session that runs for days may start a million children. Used by the
//! [`ProcessTable`](super::ProcessTable), which lists the latest [`MAX_LISTED`] of these processes
//! by name and adds up the earlier ones. Invariant: every entry
//! of every process is counted in a listed process or in the sum.

use std::collections::VecDeque;

use profiler_core::ids::PoolId;
use profiler_core::session::EntryCounts;

/// Limit on the listed processes without data.
pub(super) const MAX_LISTED: usize = 1000;

/// The dead processes whose data is gone.
#[derive(Debug, Default)]
pub(super) struct ExpiredProcesses {
    /// The listed processes, in the order in which they were added.
    listed: VecDeque<PoolId>,
    sum: ExpiredSum,
}

/// The sum of the processes that are no longer listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiredSum {
    /// Number of processes that could record.
    pub(crate) processes: u64,
    /// The sum of their entry counts.
    pub(crate) counts: EntryCounts,
    /// The part of `processes` that had to give up data, and the sum of their entry counts.
    pub(crate) gave_up: (u64, EntryCounts),
    /// The part of `processes` all of whose entries were dropped at once, and the sum of their entry
    /// counts.
    pub(crate) all_dropped: (u64, EntryCounts),
    /// Number of processes that could not record.
    pub(crate) unprofiled: u64,
}

impl ExpiredProcesses {
    /// Adds a process without data. If too many are listed, removes and returns the
    /// oldest.
    pub(super) fn add(&mut self, key: PoolId) -> Option<PoolId> {
        self.listed.push_back(key);
        if self.listed.len() > MAX_LISTED {
            self.listed.pop_front()
        } else {
            None
        }
    }

    /// Lists a process again, because the application holds its handle.
    pub(super) fn keep(&mut self, key: PoolId) {
        self.listed.push_back(key);
    }

    /// Counts a process that could not record, and is no longer listed.
    pub(super) fn forget_unprofiled(&mut self) {
        self.sum.unprofiled += 1;
    }

    /// Adds the counts of a process that is no longer listed to the sum.
    pub(super) fn forget(&mut self, counts: EntryCounts) {
        let sum = &mut self.sum;
        sum.processes += 1;
        sum.counts += counts;
        let (processes, of_part) = match counts.recorded() {
            0 => return,
            recorded if recorded == counts.dropped.total() => &mut sum.all_dropped,
            _ => &mut sum.gave_up,
        };
        *processes += 1;
        *of_part += counts;
    }

    /// The sum of the processes that are no longer listed.
    pub(super) const fn sum(&self) -> ExpiredSum {
        self.sum
    }
}

impl ExpiredSum {
    /// Number of processes that could record, and recorded nothing.
    pub(crate) const fn silent(&self) -> u64 {
        self.processes
            .saturating_sub(self.gave_up.0)
            .saturating_sub(self.all_dropped.0)
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::session::{DropReason, Drops};

    use super::*;

    #[test]
    fn processes_that_gave_up_no_data_are_counted_apart() {
        let mut dropped = [0; DropReason::COUNT];
        dropped[DropReason::Full as usize] = 2;
        let dropped = EntryCounts {
            dropped: Drops::new(dropped),
            ..EntryCounts::default()
        };
        let evicted = EntryCounts {
            evicted: 5,
            ..EntryCounts::default()
        };
        let mut expired = ExpiredProcesses::default();
        for counts in [dropped, evicted, EntryCounts::default(), evicted] {
            expired.forget(counts);
        }
        let sum = expired.sum();
        assert_eq!((sum.processes, sum.counts.recorded()), (4, 12));
        assert_eq!((sum.gave_up.0, sum.gave_up.1.recorded()), (2, 10));
        assert_eq!((sum.all_dropped.0, sum.all_dropped.1.recorded()), (1, 2));
        assert_eq!(sum.silent(), 1);
    }
}
