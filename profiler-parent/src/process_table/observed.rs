//! The processes of a session as a reading of their numbers sees them: what each is doing, its
//! memory, and whether its pool is still to be read.
//!
//! Part of the [`ProcessTable`]. Used by `prometheus`. Invariant: a process that has no pool here
//! is in the sums of the session, which are passed together with the processes.

use std::sync::{Arc, PoisonError};

use profiler_core::ids::PoolId;
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::sys::OwnFile;

use super::session_sums::{ProcessName, ProcessSum, SessionSums, has_started};
use super::{Process, ProcessReport, ProcessState, ProcessTable, Remains};

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessActivity {
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
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Starting, "starting"),
        (Self::Recording, "recording"),
        (Self::Stopped, "stopped"),
        (Self::Disconnected, "disconnected"),
        (Self::Ended, "ended"),
        (Self::Unprofiled, "unprofiled"),
    ];

    /// What a listed process is doing; `None` if it has ended, and its data is gone.
    fn of(process: &Process, report: &ProcessReport) -> Option<Self> {
        if report.unprofiled.is_some() && !matches!(process.remains, Remains::Brief(_)) {
            return Some(Self::Unprofiled);
        }
        match (&process.remains, &process.state) {
            (Remains::Brief(life), _) if life.runs_on => Some(Self::Unprofiled),
            (Remains::Pool(_), _) if process.is_over() => Some(Self::Ended),
            _ if process.is_over() => None,
            (_, ProcessState::Disconnected(_)) => Some(Self::Disconnected),
            (_, ProcessState::Starting) => Some(Self::Starting),
            _ => Some(Self::Recording),
        }
    }
}

/// A listed process.
#[derive(Debug)]
pub(crate) struct ObservedProcess {
    pub(crate) key: PoolId,
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
pub(crate) struct PoolMemory {
    /// What they occupy.
    pub(crate) held: u64,
    /// What they may occupy.
    pub(crate) allowance: u64,
    /// What their processes were asked to free, and have not freed.
    pub(crate) owed: u64,
    /// What they occupy beyond all that their processes were ever granted.
    pub(crate) excess: u64,
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
    fn of(key: PoolId, process: &Process) -> Self {
        let report = process.report();
        Self {
            key,
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
    /// lock.
    pub(crate) fn present_counts(&self) -> Vec<(PoolId, EntryCounts)> {
        let pools: Vec<(PoolId, Arc<OwnFile>)> = {
            let all = self.lock();
            let pools = all
                .iter()
                .filter_map(|(key, process)| match &process.remains {
                    Remains::Pool(pool) => Some((*key, Arc::clone(pool))),
                    _ => None,
                });
            pools.collect()
        };
        let counts = |(key, pool)| (key, Remains::Pool(pool).present_counts());
        pools.into_iter().map(counts).collect()
    }

    /// Passes all listed processes, in the order in which they were added, and the sums of the
    /// others to `then`. Both are from one moment.
    pub(crate) fn observe<T>(
        &self,
        then: impl FnOnce(Vec<ObservedProcess>, &mut SessionSums) -> T,
    ) -> T {
        let all = self.lock();
        let mut listed: Vec<(&PoolId, &Process)> = all.iter().collect();
        listed.sort_by_key(|(_, process)| process.order);
        let observed = listed
            .into_iter()
            .map(|(key, process)| ObservedProcess::of(*key, process))
            .collect();
        // Taken before the table is released, so that no pool is closed between the two.
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        drop(all);
        then(observed, &mut sums)
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::ProcessId;

    use super::*;

    fn process(state: ProcessState, remains: Remains) -> Process {
        Process::new("p", ProcessId::new(7), state, remains)
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

    #[test]
    fn a_process_that_is_no_longer_listed_stays_in_the_sums() {
        const PROCESSES: u64 = 1_300;
        let table = ProcessTable::default();
        let starts = |table: &ProcessTable| {
            table.observe(|observed, sums| {
                let lives = observed.iter().map(|one| (&one.name, &one.life));
                sums.processes.show(lives).own
            })
        };
        for number in 0..PROCESSES {
            let key = PoolId::new(u128::from(number));
            let state = ProcessState::Exited(None);
            table.add(
                key,
                process(state, Remains::Expired(EntryCounts::default())),
            );
            table.note_empty(key);
        }
        assert!(table.expired().processes > 0, "all are listed");
        let shown = starts(&table);
        let [(key, sum)] = &shown[..] else {
            panic!("{shown:?}")
        };
        assert_eq!((&*key.0, sum.starts), ("p", PROCESSES));
        assert_eq!(sum.ends.iter().sum::<u64>(), PROCESSES);
    }
}
