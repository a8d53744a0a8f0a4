//! The sums of a group over all processes of one name.
//!
//! Made of the groups in a pool. Groups that differ only in their labels are one.

use std::sync::Arc;

use profiler_core::groups::GroupKind;
use profiler_core::internal::durations::BUCKETS;
use profiler_core::internal::reader::groups::{GroupTotals, PoolGroups};

use super::bounded::{Sum, SumKey};
use super::process_sum::{OTHER, plain_name};

/// What identifies a group over all processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupKey {
    /// The name of its processes.
    pub process: Arc<str>,
    /// Its kind.
    pub kind: GroupKind,
    /// Its name; that of the process, if it is the group of a process.
    pub name: Arc<str>,
}

impl GroupKey {
    /// The key of a group in a process of this name.
    pub fn new(process: &Arc<str>, kind: GroupKind, name: &str) -> Self {
        let process = Arc::clone(process);
        let name = match kind {
            GroupKind::Process => Arc::clone(&process),
            _ => plain_name(name),
        };
        Self {
            process,
            kind,
            name,
        }
    }

    /// The place of its kind among those that get sums of their own: the groups of the program come
    /// before those that every process has.
    pub(crate) const fn rank(&self) -> u8 {
        match self.kind {
            GroupKind::Process => 1,
            GroupKind::Thread => 2,
            _ => 0,
        }
    }
}

impl SumKey for GroupKey {
    fn is_other(&self) -> bool {
        &*self.process == OTHER && self.kind == GroupKind::Other && &*self.name == OTHER
    }
}

/// Totals of a group. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSum {
    /// Entries from outside.
    pub entries: u64,
    /// Timed runs.
    pub runs: u64,
    /// The time of all runs.
    pub wall_ns: u64,
    /// The part of `wall_ns` whose processor time is known.
    pub measured_ns: u64,
    /// The processor time of all runs.
    pub cpu_ns: u64,
    /// The time by which runs were too long for their thread.
    pub blocking_ns: u64,
    /// Runs up to the bound of each bucket: what is shown, so that no shown number falls.
    pub within: [u64; BUCKETS],
}

impl From<&GroupTotals> for GroupSum {
    fn from(totals: &GroupTotals) -> Self {
        Self {
            entries: totals.ticks,
            runs: totals.runs,
            wall_ns: totals.wall_ns,
            measured_ns: totals.measured_ns,
            cpu_ns: totals.cpu_ns,
            blocking_ns: totals.blocking_ns,
            within: totals
                .durations
                .map(|longer| totals.runs.saturating_sub(longer)),
        }
    }
}

impl Sum for GroupSum {
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let each = |one: &mut u64, other: u64| *one = with(*one, other);
        each(&mut self.entries, other.entries);
        each(&mut self.runs, other.runs);
        each(&mut self.wall_ns, other.wall_ns);
        each(&mut self.measured_ns, other.measured_ns);
        each(&mut self.cpu_ns, other.cpu_ns);
        each(&mut self.blocking_ns, other.blocking_ns);
        let within = self.within.iter_mut().zip(other.within);
        within.for_each(|(one, other)| each(one, other));
    }
}

/// The groups in the pool of a process of this name that have done something, those of the program
/// first.
pub(crate) fn sums_in_pool(process: &str, groups: &PoolGroups) -> Vec<(GroupKey, GroupSum)> {
    let process = plain_name(process);
    let groups = groups.groups.iter();
    let used = groups.filter(|group| !group.totals.is_idle());
    let mut sums: Vec<(GroupKey, GroupSum)> = used
        .map(|group| {
            let definition = &group.definition;
            let key = GroupKey::new(&process, definition.kind, &definition.name);
            (key, GroupSum::from(&group.totals))
        })
        .collect();
    sums.sort_by_key(|(key, _)| key.rank()); // keeps the order of equal ranks
    sums
}
