//! The processes of a session as a reading of their numbers sees them: what each is doing, its
//! memory, and whether its pool is still to be read.
//!
//! Part of the [`ProcessTable`]. Used by `prometheus`. Invariants: the pools that are to be read
//! here are those whose last numbers are not in the sums of the session, which are passed together
//! with the processes; the table is locked only while it is copied.

use std::sync::Arc;

use profiler_core::ids::PoolId;
use profiler_core::session::EntryCounts;
use profiler_core::time::Timestamp;
use profiler_sys::OwnFile;

use super::session_sums::{ProcessName, ProcessSum, SessionSums, has_started};
use super::{ProcessReport, ProcessState, ProcessTable, Remains, TrackedProcess};

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessActivity {
    /// Started; has not connected.
    Starting,
    /// It records.
    Recording,
    /// It is stopped, for example in a debugger. Only a reading of groups knows this.
    Stopped,
    /// Its channel has closed, and it is not known to have ended.
    Disconnected,
    /// It has ended, and data of it is kept.
    Ended,
    /// It is known not to record, whether it runs or not.
    Unprofiled,
}

impl ProcessActivity {
    /// All of them, each with its name.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Starting, "starting"),
        (Self::Recording, "recording"),
        (Self::Stopped, "stopped"),
        (Self::Disconnected, "disconnected"),
        (Self::Ended, "ended"),
        (Self::Unprofiled, "unprofiled"),
    ];

    /// What a listed process is doing; `None` if it has ended, and its data is gone.
    fn of(process: &TrackedProcess, report: &ProcessReport) -> Option<Self> {
        if report.unprofiled.is_some() {
            return Some(Self::Unprofiled);
        }
        match (&process.remains, &process.state) {
            (Remains::Pool(_), _) if process.is_over() => Some(Self::Ended),
            _ if process.is_over() => None,
            (_, ProcessState::Disconnected(_)) => Some(Self::Disconnected),
            (_, ProcessState::Starting) => Some(Self::Starting),
            _ => Some(Self::Recording),
        }
    }
}

/// The entry counts in the pool of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PresentCounts {
    pub(crate) counts: EntryCounts,
    /// Whether the process had ended before they were read, so that they are final.
    pub(crate) has_ended: bool,
}

/// A listed process.
#[derive(Debug)]
pub(crate) struct ObservedProcess {
    pub(crate) key: PoolId,
    order: u64,
    pub(crate) name: ProcessName,
    /// `None` if it has ended, and its data is gone.
    pub(crate) activity: Option<ProcessActivity>,
    /// Its start and its end.
    pub(crate) life: ProcessSum,
    /// Whether its pool is to be read: it has a pool, and its name is final.
    pub(crate) is_read: bool,
    /// The memory of its pool.
    pub(crate) memory: PoolMemory,
}

/// The memory of pools, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolMemory {
    /// What they occupy.
    pub held: u64,
    /// What they may occupy.
    pub allowance: u64,
    /// What their processes were asked to free, and have not freed.
    pub owed: u64,
    /// What they occupy beyond all that their processes were ever granted.
    pub excess: u64,
}

impl PoolMemory {
    /// Adds the memory of another pool.
    pub(crate) const fn add(&mut self, other: Self) {
        self.held = self.held.saturating_add(other.held);
        self.allowance = self.allowance.saturating_add(other.allowance);
        self.owed = self.owed.saturating_add(other.owed);
        self.excess = self.excess.saturating_add(other.excess);
    }
}

impl ObservedProcess {
    fn of(key: PoolId, process: &TrackedProcess) -> Self {
        let report = process.report();
        Self {
            key,
            order: process.order,
            name: ProcessName::new(&process.name),
            activity: ProcessActivity::of(process, &report),
            life: ProcessSum::of_life(process),
            is_read: matches!(process.remains, Remains::Pool(_)) && has_started(process),
            memory: PoolMemory {
                held: report.true_bytes,
                allowance: report.allowance.get(),
                owed: report.owed_bytes,
                excess: report.excess_bytes,
            },
        }
    }
}

impl ProcessTable {
    /// The present entry counts of all processes that have a pool. Reads every pool, without the
    /// lock, and no further pool when this number of ticks has passed: a pool in a file may wait
    /// for the disk.
    pub(crate) fn present_counts(&self, most_ticks: u64) -> Vec<(PoolId, PresentCounts)> {
        let start = Timestamp::now();
        let pools: Vec<(PoolId, Arc<OwnFile>, bool)> = {
            let all = self.lock();
            let pools = all
                .iter()
                .filter_map(|(key, process)| match &process.remains {
                    Remains::Pool(pool) => Some((*key, Arc::clone(pool), process.is_over())),
                    _ => None,
                });
            pools.collect()
        };
        let counts = |(key, pool, has_ended)| {
            let counts = Remains::Pool(pool).present_counts();
            (key, PresentCounts { counts, has_ended })
        };
        let in_time = pools
            .into_iter()
            .take_while(|_| Timestamp::now().since(start) < most_ticks);
        in_time.map(counts).collect()
    }

    /// Passes all listed processes, in the order in which they were added, and the sums of the
    /// session to `then`. The ends of processes that are noticed meanwhile are added to the sums
    /// afterwards; the threads that notice them do not wait.
    pub(crate) fn observe<T>(
        &self,
        then: impl FnOnce(Vec<ObservedProcess>, &mut SessionSums) -> T,
    ) -> T {
        // Locked before the table is copied: the last numbers of a pool that is to be read come
        // later.
        let mut sums = self.sums.lock();
        let mut observed: Vec<ObservedProcess> = {
            let all = self.lock();
            let listed = all.iter();
            let listed = listed.map(|(key, process)| ObservedProcess::of(*key, process));
            listed.collect()
        };
        observed.sort_by_key(|process| process.order);
        then(observed, &mut sums)
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;
    use profiler_core::groups::GroupKind;
    use profiler_core::ids::ProcessId;
    use test_support::patience::LONG;

    use super::super::session_sums::{ClosedPool, GroupKey, GroupSum};
    use super::*;

    fn process(state: ProcessState, remains: Remains) -> TrackedProcess {
        TrackedProcess::new("p", ProcessId::new(7), state, remains)
    }

    #[test]
    fn a_process_is_doing_one_thing_and_one_without_data_nothing() {
        let gone = || Remains::Expired(EntryCounts::default());
        let why = || Remains::Unprofiled("it is statically linked".to_owned());
        let disconnected = ProcessState::Disconnected("gone".to_owned());
        for (state, remains, expected) in [
            (ProcessState::Parent, gone(), Some("recording")),
            (ProcessState::Connected, gone(), Some("recording")),
            (ProcessState::Starting, gone(), Some("starting")),
            (disconnected, gone(), Some("disconnected")),
            (ProcessState::Exited(None), why(), Some("unprofiled")),
            (ProcessState::Exited(None), gone(), None),
            (ProcessState::Executed, gone(), None),
        ] {
            let process = process(state, remains);
            let activity = ProcessActivity::of(&process, &process.report());
            let named = ProcessActivity::ALL
                .iter()
                .find(|(one, _)| Some(*one) == activity);
            assert_eq!(named.map(|(_, name)| *name), expected, "{process:?}");
        }
    }

    /// A reading of the lives of all listed processes.
    fn starts_of(observed: &[ObservedProcess], sums: &mut SessionSums) -> Vec<(String, u64)> {
        for one in observed {
            sums.processes.read(&one.key, [(&one.name, &one.life)]);
        }
        let shown = sums.processes.show().own.into_iter();
        shown
            .map(|(name, sum)| (name.0.to_string(), sum.starts))
            .collect()
    }

    fn group() -> (GroupKey, GroupSum) {
        let key = GroupKey::new(&"p".into(), GroupKind::Plugin, "checker");
        let sum = GroupSum {
            entries: 5,
            ..GroupSum::default()
        };
        (key, sum)
    }

    /// Closes the pool of a process that has done this.
    fn close(table: &ProcessTable, key: PoolId, groups: Vec<(GroupKey, GroupSum)>) {
        table.close_pool_with(key, |process| {
            let counts = EntryCounts::default();
            process.remains = Remains::Expired(counts);
            Some(ClosedPool { counts, groups })
        });
    }

    #[test]
    fn a_process_that_is_no_longer_listed_stays_in_the_sums() {
        const PROCESSES: u64 = 1_300;
        let table = ProcessTable::default();
        for number in 0..PROCESSES {
            let key = PoolId::new(u128::from(number));
            let state = ProcessState::Exited(None);
            table.add(
                key,
                process(state, Remains::Expired(EntryCounts::default())),
            );
            table.note_empty(key);
            if number == PROCESSES / 2 {
                table.observe(|observed, sums| starts_of(&observed, sums));
            }
        }
        assert!(table.expired().processes > 0, "all are listed");
        let (ends, starts) = table.observe(|observed, sums| {
            let starts = starts_of(&observed, sums);
            let shown = sums.processes.show().own;
            let ends = shown.iter().flat_map(|(_, sum)| sum.ends).sum::<u64>();
            (ends, starts)
        });
        assert_eq!(starts, [("p".to_owned(), PROCESSES)]);
        assert_eq!(ends, PROCESSES);
    }

    #[test]
    fn the_end_of_a_process_and_other_users_of_the_table_do_not_wait_for_a_reading() {
        let table = Arc::new(ProcessTable::default());
        let key = PoolId::new(1);
        let gone = || Remains::Expired(EntryCounts::default());
        table.add(key, process(ProcessState::Exited(None), gone()));
        let entries = |sums: &SessionSums| {
            let shown = sums.groups.show().own;
            shown.iter().map(|(_, sum)| sum.entries).sum::<u64>()
        };
        let during = table.observe(|_, sums| {
            let (done, is_done) = bounded(1);
            let ending = Arc::clone(&table);
            let thread = std::thread::Builder::new().spawn(move || {
                close(&ending, key, vec![group()]);
                ending.note_empty(key);
                let listed = ending.lock().len();
                done.send(listed).unwrap();
            });
            drop(thread.unwrap());
            assert_eq!(is_done.recv_timeout(LONG), Ok(1), "it waits");
            entries(sums)
        });
        assert_eq!(during, 0);
        assert_eq!(table.observe(|_, sums| entries(sums)), 5);
        assert_eq!(table.observe(|_, sums| entries(sums)), 5, "added once");
    }

    #[test]
    fn a_pool_that_is_closed_during_a_reading_counts_once() {
        let table = ProcessTable::default();
        let key = PoolId::new(1);
        let gone = || Remains::Expired(EntryCounts::default());
        table.add(key, process(ProcessState::Exited(None), gone()));
        let (group_key, sum) = group();
        let shown = table.observe(|_, sums| {
            close(&table, key, vec![group()]);
            sums.groups.read(&key, [(&group_key, &sum)]);
            sums.groups.show().own
        });
        assert_eq!(shown, [group()]);
        let later = table.observe(|_, sums| sums.groups.show().own);
        assert_eq!(later, [group()]);
    }

    #[test]
    fn no_further_pool_is_read_after_the_timeout() {
        let table = ProcessTable::default();
        let file = OwnFile::from(tempfile::tempfile().unwrap());
        let pool = Remains::Pool(Arc::new(file));
        table.add(PoolId::new(1), process(ProcessState::Connected, pool));
        assert_eq!(table.present_counts(0).len(), 0);
        assert_eq!(table.present_counts(u64::MAX).len(), 1);
    }
}
