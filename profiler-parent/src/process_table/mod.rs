//! The processes of a session, each with its state, its pool and its report.
//!
//! Written by the supervisor and by spawning; read by the session, captures, observers, alerts and
//! the live page. A dead process stays in the table. When its data is gone as well, it is removed,
//! unless it is among the latest processes without data or the application holds its handle.

mod brief;
mod elsewhere;
mod expired;
mod joined;
mod lives;
mod observed;
pub(crate) mod pool_list;
mod process;
mod report;
pub(crate) mod session_sums;
mod summary;
mod unprofiled;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_core::ids::PoolId;
use profiler_core::time::Timestamp;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use brief::BriefLife;
use brief::{Arrivals, BriefRuns};
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use elsewhere::ElsewhereProcess;
use expired::{ExpiredProcesses, ExpiredSum};
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use lives::EarlierLife;
pub(crate) use observed::{ObservedProcess, PoolMemory, PresentCounts, ProcessActivity};
pub(crate) use process::{Process, Remains};
pub use report::{ProcessReport, ProcessState};
use session_sums::{ClosedPool, DeferredSums, LastNumbers, ProcessName, ProcessSum};
pub use summary::SessionSummary;
pub use unprofiled::UnprofiledProcess;

/// All processes of a session.
#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    all: Mutex<BTreeMap<PoolId, Process>>,
    next_order: AtomicU64,
    expired: Mutex<ExpiredProcesses>,
    sums: DeferredSums,
    changed: Condvar,
    arrivals: Mutex<Option<Arrivals>>,
}

impl ProcessTable {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolId, Process>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process as the last in order.
    pub(crate) fn add(&self, key: PoolId, mut process: Process) {
        process.order = self.next_order.fetch_add(1, Ordering::Relaxed);
        process.began = (!process.is_over()).then(Timestamp::now);
        self.lock().insert(key, process);
    }

    /// Notes that a dead process has no data left. If too many such processes are listed, removes
    /// the oldest and adds its counts to the sum.
    pub(crate) fn note_empty(&self, key: PoolId) {
        let mut expired = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.lock();
        let is_brief = all.get(&key).is_some_and(Process::is_brief);
        let Some(oldest) = expired.add(key, is_brief) else {
            return;
        };
        if all
            .get(&oldest)
            .is_some_and(|process| process.handle.strong_count() > 0)
        {
            return expired.keep(oldest, is_brief);
        }
        if let Some(process) = all.remove(&oldest) {
            self.end_life(oldest, &process);
            match process.remains {
                Remains::Brief(life) if !life.runs_on => {
                    expired.forget_brief(&process.name, life);
                }
                Remains::Brief(_) | Remains::Unprofiled(_) => expired.forget_unprofiled(),
                remains => expired.forget(remains.counts()),
            }
        }
    }

    /// Closes the pool of a dead process with `close`, which returns what the process has done.
    /// Adds its groups and its entry counts to the sums of the session.
    pub(crate) fn close_pool(
        &self,
        key: PoolId,
        close: impl FnOnce(&mut Process) -> Option<ClosedPool>,
    ) {
        let mut all = self.lock();
        let closed = all.get_mut(&key).and_then(|process| {
            let closed = close(process)?;
            let name = ProcessName::new(&process.name);
            Some(LastNumbers::Pool { key, name, closed })
        });
        drop(all);
        closed.into_iter().for_each(|last| self.sums.add(last));
        self.changed.notify_all();
    }

    /// Adds a process that is no longer listed to the sums of the session.
    fn end_life(&self, key: PoolId, process: &Process) {
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

    fn recorded_by(&self, counts: impl Fn(&Process) -> bool) -> u64 {
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

    /// Whether a process has attached its pool.
    pub(crate) fn has_begun(&self, key: PoolId) -> bool {
        let known = self
            .lock()
            .get(&key)
            .map(|process| (process.said_hello, process.remains.clone()));
        known.is_some_and(|(said_hello, remains)| said_hello || remains.is_taken())
    }

    /// The programs that ended before they asked for memory, and are no longer listed.
    pub(crate) fn expired_briefs(&self) -> Vec<(String, BriefRuns)> {
        self.expired
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .briefs()
    }

    /// The number of these programs.
    fn brief_runs(&self) -> u64 {
        self.expired
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .brief_runs()
    }

    /// The sum of the other processes that are no longer listed.
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

    /// Changes a process, and wakes the threads that wait for its end.
    pub(crate) fn change<T>(
        &self,
        key: PoolId,
        change: impl FnOnce(&mut Process) -> T,
    ) -> Option<T> {
        let changed = self.lock().get_mut(&key).map(change);
        self.changed.notify_all();
        changed
    }

    /// Waits until a process has ended.
    pub(crate) fn wait_for_end(&self, key: PoolId) -> Option<ExitStatus> {
        let mut all = self.lock();
        loop {
            match all.get(&key).map(|process| &process.state) {
                Some(ProcessState::Exited(status)) => return *status,
                None => return None,
                Some(_)
                    if all
                        .get(&key)
                        .is_some_and(|process| process.released.is_some()) =>
                {
                    break;
                }
                Some(_) => {
                    all = self
                        .changed
                        .wait(all)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
        // The session is over. The lock is released while waiting, because the child may run for
        // long.
        let process = all.get_mut(&key)?;
        let mut child = process.released.take()?;
        drop(all);
        let status = child.wait().ok();
        self.change(key, |process| process.state = ProcessState::Exited(status));
        status
    }

    /// Whether a child has ended.
    pub(crate) fn has_ended(&self, key: PoolId) -> bool {
        let mut all = self.lock();
        let Some(process) = all.get_mut(&key) else {
            return true;
        };
        // The session is over, so the exit watcher no longer takes the status.
        if let Some(child) = &mut process.released
            && let Ok(Some(status)) = child.try_wait()
        {
            process.state = ProcessState::Exited(Some(status));
        }
        matches!(process.state, ProcessState::Exited(_))
    }

    /// Moves the children that are still alive from the exit watcher to the table at the end of the
    /// session, so that handles can still wait for them. `take_children` takes them from the
    /// watcher. It runs under the lock, so a child that has left the watcher is always found here.
    pub(crate) fn release(&self, take_children: impl FnOnce() -> Vec<(PoolId, Child)>) {
        let mut all = self.lock();
        for (key, child) in take_children() {
            if let Some(process) = all.get_mut(&key) {
                process.released = Some(child);
            }
        }
        drop(all);
        self.changed.notify_all();
    }

    /// Kills a released child. `None` if the table does not hold the child.
    pub(crate) fn kill_released(&self, key: PoolId) -> Option<std::io::Result<()>> {
        self.lock()
            .get_mut(&key)?
            .released
            .as_mut()
            .map(Child::kill)
    }

    /// Waits while `holds` returns true, for at most `patience`.
    pub(crate) fn wait_while(
        &self,
        patience: Duration,
        mut holds: impl FnMut(&BTreeMap<PoolId, Process>) -> bool,
    ) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), patience, |all| holds(all));
        drop(waited);
    }

    /// Ends the receive threads of all children at the end of the session.
    pub(crate) fn hang_up(&self) {
        for process in self.lock().values() {
            process.hang_up();
        }
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
            .map(|(key, process)| (*key, process.accountable(process.true_bytes())))
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
        let mut processes: Vec<&Process> = all.values().collect();
        processes.sort_by_key(|process| process.order);
        processes.into_iter().map(Process::report).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use profiler_core::ids::ProcessId;
    use profiler_core::internal::entry_counts::EntryCounts;

    use super::expired::MOST_LISTED;
    use super::*;

    fn dead(recorded: u64) -> Process {
        let counts = EntryCounts {
            evicted: recorded,
            ..EntryCounts::default()
        };
        let state = ProcessState::Exited(None);
        Process::new("dead", ProcessId::new(1), state, Remains::Expired(counts))
    }

    #[test]
    fn dead_processes_without_data_are_limited_and_their_entries_stay_counted() {
        let processes = ProcessTable::default();
        let handle = Arc::new(());
        for number in 0..MOST_LISTED as u128 + 10 {
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
            MOST_LISTED as u64 + 10
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
            Some(MOST_LISTED as u64 + 9),
            "the order of the processes is kept"
        );
    }
}
