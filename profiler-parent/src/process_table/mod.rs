//! The processes of a session, each with its state, its pool and its report.
//!
//! Written by the supervisor and by spawning; read by the session, captures, observers, alerts and
//! the live page. A dead process stays in the table. When its data is gone as well, it is removed,
//! unless it is among the latest processes without data or the application holds its handle.
//!
//! Invariants: only this module and its submodules lock the table and see the fields of an entry;
//! readers get copies. Each change wakes the threads that wait for a process.

mod arrivals;
mod channels;
mod copies;
mod deadlocks;
mod death_log;
mod deaths;
mod elsewhere;
mod expired;
mod joined;
mod lives;
mod observed;
mod observed_time;
mod pid_set;
pub(crate) mod pool_list;
mod remains;
mod report;
pub(crate) mod session_sums;
#[cfg(observing)]
mod spawning;
mod summary;
mod tracked_process;
mod unprofiled;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
#[cfg(observing)]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use profiler_core::ids::PoolId;
use profiler_core::time::Timestamp;

pub(crate) use arrivals::ArrivalSource;
use arrivals::Arrivals;
#[cfg(feature = "live")]
pub(crate) use copies::ProcessForLivePage;
pub(crate) use copies::{GroupSource, ProcessForCapture, ProcessForGroups};
pub use deadlocks::{Deadlock, DeadlockedWait};
use death_log::DeathLog;
pub use death_log::ProcessDeath;
pub(crate) use deaths::{DeadPoolEntry, FinalGroups};
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use elsewhere::ElsewhereProcess;
use expired::{ExpiredProcesses, ExpiredSum};
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use lives::EarlierLife;
pub(crate) use observed::{ObservedProcess, PresentCounts};
pub use observed::{PoolMemory, ProcessActivity};
pub(crate) use observed_time::ObservedTime;
use pid_set::PidSet;
pub(crate) use remains::Remains;
pub use report::{ProcessReport, ProcessState};
use session_sums::{DeferredSums, LastNumbers, ProcessName, ProcessSum};
pub use summary::SessionSummary;
pub(crate) use tracked_process::TrackedProcess;
pub use unprofiled::UnprofiledProcess;

/// All processes of a session.
#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    all: Mutex<BTreeMap<PoolId, TrackedProcess>>,
    next_order: AtomicU64,
    expired: Mutex<ExpiredProcesses>,
    sums: DeferredSums,
    changed: Condvar,
    arrivals: Mutex<Vec<(ArrivalSource, Arrivals)>>,
    observed_time: Mutex<Option<ObservedTime>>,
    /// The processes that have executed another program and may still run.
    executed: PidSet,
    /// The processes that were spawned without resources, and are neither observed nor have joined.
    awaiting: PidSet,
    /// The number of files of observed programs that are not read yet.
    unread_files: AtomicU64,
    /// The number of processes that had arrived at the last wait and were not in the table after
    /// it.
    missed_arrivals: AtomicU64,
    deadlocks: Mutex<Vec<Deadlock>>,
    death_log: Mutex<DeathLog>,
    /// Whether programs could make no files at some time.
    had_full_directory: AtomicBool,
    /// The number of processes that are being spawned without resources.
    #[cfg(observing)]
    spawning: AtomicUsize,
}

impl ProcessTable {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolId, TrackedProcess>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process as the last in order.
    pub(crate) fn add(&self, key: PoolId, mut process: TrackedProcess) {
        process.order = self.next_order.fetch_add(1, Ordering::Relaxed);
        let is_news = !process.is_over() || matches!(process.remains, Remains::Unprofiled(_));
        process.began = is_news.then(Timestamp::now);
        let waiting = process.awaits_program().then_some(process.pid);
        let mut all = self.lock();
        all.insert(key, process);
        // After that: a search that finds the number expects the entry.
        if let Some(pid) = waiting {
            self.awaiting.insert(pid);
        }
    }

    /// Notes that a dead process has no data left. If too many such processes are listed, removes
    /// the oldest and adds its counts to the sum.
    pub(crate) fn note_empty(&self, key: PoolId) {
        let mut expired = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.lock();
        let Some(oldest) = expired.add(key) else {
            return;
        };
        if all
            .get(&oldest)
            .is_some_and(|process| process.handle.strong_count() > 0)
        {
            return expired.keep(oldest);
        }
        if let Some(process) = all.remove(&oldest) {
            self.end_life(oldest, &process);
            match process.remains {
                Remains::Unprofiled(_) => expired.forget_unprofiled(),
                remains => expired.forget(remains.counts()),
            }
        }
    }

    /// Adds a process that is no longer listed to the sums of the session.
    fn end_life(&self, key: PoolId, process: &TrackedProcess) {
        let name = ProcessName::new(&process.name);
        let life = ProcessSum::of_life(process);
        self.sums.add(LastNumbers::Life { key, name, life });
    }

    /// Number of entries that all processes have recorded, according to their pools.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded_by(|_| true)
    }

    /// The same without the process of the session.
    pub(crate) fn recorded_by_children(&self) -> u64 {
        self.recorded_by(|process| process.state != ProcessState::Parent)
    }

    fn recorded_by(&self, counts: impl Fn(&TrackedProcess) -> bool) -> u64 {
        let all: Vec<Remains> = self
            .lock()
            .values()
            .filter(|process| counts(process))
            .map(|process| process.remains.clone())
            .collect();
        let gone = self.expired().counts.recorded();
        all.iter()
            .map(|remains| remains.present_counts().recorded())
            .fold(gone, u64::saturating_add) // read without the lock
    }

    /// The sum of the processes that are no longer listed.
    pub(crate) fn expired(&self) -> ExpiredSum {
        self.expired
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sum()
    }

    /// Removes a process that could not be started.
    pub(crate) fn remove(&self, key: PoolId) {
        self.lock().remove(&key);
    }

    /// Changes a process, and wakes the threads that wait for its end or its hello.
    fn change<T>(&self, key: PoolId, change: impl FnOnce(&mut TrackedProcess) -> T) -> Option<T> {
        let changed = self.lock().get_mut(&key).map(change);
        self.changed.notify_all();
        changed
    }

    /// Gives a process a state, and nothing else.
    #[cfg(test)]
    pub(crate) fn set_state(&self, key: PoolId, state: ProcessState) {
        self.change(key, |process| process.state = state);
    }

    /// Makes a process one that has said hello under this name.
    #[cfg(test)]
    pub(crate) fn connect_as(&self, key: PoolId, name: &str) {
        self.change(key, |process| {
            process.name = name.to_owned();
            process.said_hello = true;
            process.state = ProcessState::Connected;
        });
    }

    /// The processes that have a part file for their part. For the others, the parent reads the
    /// pool.
    pub(crate) fn writers(&self) -> BTreeSet<PoolId> {
        let all = self.lock();
        all.iter()
            .filter(|(_, process)| process.part_file.is_some())
            .map(|(key, _)| *key)
            .collect()
    }

    /// Bytes that the pools of running processes occupy, without the overhead of the file system.
    pub(crate) fn occupied_by_the_living(&self) -> Vec<(PoolId, u64)> {
        let all = self.lock();
        let living = all.iter().filter(|(_, process)| !process.is_over());
        living
            .map(|(key, process)| {
                (
                    *key,
                    process
                        .accountable(process.true_bytes())
                        .saturating_add(process.ring_bytes),
                )
            })
            .collect()
    }

    /// Number of connected children.
    pub(crate) fn connected(&self) -> usize {
        let all = self.lock();
        all.values()
            .filter(|process| process.state == ProcessState::Connected)
            .count()
    }

    /// Reports on all processes in the order in which they were added, with current figures.
    pub(crate) fn reports(&self) -> Vec<ProcessReport> {
        let all = self.lock();
        let mut processes: Vec<&TrackedProcess> = all.values().collect();
        processes.retain(|process| !process.is_left_out);
        processes.sort_by_key(|process| process.order);
        processes.into_iter().map(TrackedProcess::report).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use profiler_core::ids::ProcessId;
    use profiler_core::session::EntryCounts;

    use super::expired::MAX_LISTED;
    use super::*;

    fn dead(recorded: u64) -> TrackedProcess {
        let counts = EntryCounts {
            evicted: recorded,
            ..EntryCounts::default()
        };
        let state = ProcessState::Exited(None);
        TrackedProcess::new("dead", ProcessId::new(1), state, Remains::Expired(counts))
    }

    #[test]
    fn dead_processes_without_data_are_limited_and_their_entries_stay_counted() {
        let processes = ProcessTable::default();
        let handle = Arc::new(());
        for number in 0..MAX_LISTED as u128 + 10 {
            let mut process = dead(1);
            if number == 3 {
                process.handle = Arc::downgrade(&handle);
            }
            processes.add(PoolId::new(number), process);
            processes.note_empty(PoolId::new(number));
        }
        let expired = processes.expired();
        assert_eq!(
            processes.lock().len() as u64 + expired.processes,
            MAX_LISTED as u64 + 10
        );
        assert_eq!((expired.processes, expired.counts.recorded()), (9, 9));
        assert!(
            processes.lock().contains_key(&PoolId::new(3)),
            "the application holds its handle"
        );
        assert!(!processes.lock().contains_key(&PoolId::new(4)));
        let last = processes.lock().values().map(|process| process.order).max();
        assert_eq!(
            last,
            Some(MAX_LISTED as u64 + 9),
            "the order of the processes is kept"
        );
    }
}
