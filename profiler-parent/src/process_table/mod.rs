//! The processes of a session, each with its state, its pool and its report.
//!
//! Written by the supervisor and by spawning; read by the session, captures, observers, alerts and
//! the live page. A process stays when it is dead. When its data is gone too, it stays as long as
//! it is one of the latest of those, or the application holds its handle.

mod expired;
mod process;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_core::ids::PoolId;

use expired::{ExpiredProcesses, ExpiredSum};
pub(crate) use process::{Process, Remains};
pub use report::{ProcessReport, ProcessState};

/// All processes of a session.
#[derive(Debug, Default)]
pub(crate) struct ProcessTable {
    all: Mutex<BTreeMap<PoolId, Process>>,
    came: AtomicU64,
    expired: Mutex<ExpiredProcesses>,
    changed: Condvar,
}

impl ProcessTable {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolId, Process>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process, after all that are there.
    pub(crate) fn add(&self, key: PoolId, mut process: Process) {
        process.order = self.came.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, process);
    }

    /// A process is dead and has no data left. It is listed, and the one that ended first is added to
    /// the sum if too many are.
    pub(crate) fn note_empty(&self, key: PoolId) {
        let mut expired = self.expired.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(oldest) = expired.add(key) else { return };
        let mut all = self.lock();
        if all.get(&oldest).is_some_and(|process| process.handle.strong_count() > 0) {
            return expired.keep(oldest);
        }
        if let Some(process) = all.remove(&oldest) {
            expired.forget(process.remains.counts());
        }
    }

    /// Entries that all processes have recorded, from their pools.
    pub(crate) fn recorded(&self) -> u64 {
        let all: Vec<Remains> = self.lock().values().map(|process| process.remains.clone()).collect();
        let gone = self.expired().counts.recorded();
        all.iter().map(Remains::recorded).fold(gone, u64::saturating_add) // read without the lock
    }

    /// Whether a process took its pool.
    pub(crate) fn has_begun(&self, key: PoolId) -> bool {
        let known = self.lock().get(&key).map(|process| (process.said_hello, process.remains.clone()));
        known.is_some_and(|(said_hello, remains)| said_hello || remains.is_taken())
    }

    /// ProcessTable that are not listed any more.
    pub(crate) fn expired(&self) -> ExpiredSum {
        self.expired.lock().unwrap_or_else(PoisonError::into_inner).sum()
    }

    /// Removes a process that could not be started after all.
    pub(crate) fn remove(&self, key: PoolId) {
        self.lock().remove(&key);
    }

    /// Changes a process, and wakes the threads that wait for its end.
    pub(crate) fn change<T>(&self, key: PoolId, change: impl FnOnce(&mut Process) -> T) -> Option<T> {
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
                Some(_) if all.get(&key).is_some_and(|process| process.released.is_some()) => break,
                Some(_) => all = self.changed.wait(all).unwrap_or_else(PoisonError::into_inner),
            }
        }
        // The session is over. Waited for without the lock: it may take long.
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
        let Some(process) = all.get_mut(&key) else { return true };
        // The session is over, so the exit watcher no longer takes the status.
        if let Some(child) = &mut process.released
            && let Ok(Some(status)) = child.try_wait()
        {
            process.state = ProcessState::Exited(Some(status));
        }
        matches!(process.state, ProcessState::Exited(_))
    }

    /// The session is over: handles keep the processes that are still alive. `take_children` takes
    /// them from the exit watcher. It runs under the lock, so a child that the watcher no longer
    /// has is found here.
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

    /// Ends a process that was released. `None` if it was not, or has ended.
    pub(crate) fn kill_released(&self, key: PoolId) -> Option<std::io::Result<()>> {
        self.lock().get_mut(&key)?.released.as_mut().map(Child::kill)
    }

    /// Waits while `holds` returns true, for at most `patience`.
    pub(crate) fn wait_while(
        &self,
        patience: Duration,
        mut holds: impl FnMut(&BTreeMap<PoolId, Process>) -> bool,
    ) {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |all| holds(all));
        drop(waited);
    }

    /// Ends the receive threads of all children that live on; the session is over.
    pub(crate) fn hang_up(&self) {
        for process in self.lock().values() {
            process.hang_up();
        }
    }

    /// The members that have a file to write their part to. For all others the pool is read.
    pub(crate) fn writers(&self) -> BTreeSet<PoolId> {
        let all = self.lock();
        all.iter().filter(|(_, process)| process.outbox.is_some()).map(|(key, _)| *key).collect()
    }

    /// What the pools of all processes occupy that have not ended, as far as they are to blame.
    pub(crate) fn occupied_by_the_living(&self) -> Vec<(PoolId, u64)> {
        let all = self.lock();
        let living = all.iter().filter(|(_, process)| !matches!(process.state, ProcessState::Exited(_)));
        living.map(|(key, process)| (*key, process.accountable(process.true_bytes()))).collect()
    }

    /// Children that could confirm something.
    pub(crate) fn connected(&self) -> usize {
        let all = self.lock();
        all.values().filter(|process| process.state == ProcessState::Connected).count()
    }

    /// All processes in the order in which they came, with live figures.
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
        let counts = EntryCounts { evicted: recorded, ..EntryCounts::default() };
        let state = ProcessState::Exited(None);
        Process::new("dead", ProcessId::new(1), state, Remains::Expired(counts))
    }

    #[test]
    fn the_dead_without_data_do_not_pile_up_and_their_entries_stay_counted() {
        let (processes, handle) = (ProcessTable::default(), Arc::new(()));
        for number in 0..MOST_LISTED as u128 + 10 {
            let mut process = dead(1);
            if number == 3 {
                process.handle = Arc::downgrade(&handle);
            }
            processes.add(PoolId::new(number), process);
            processes.note_empty(PoolId::new(number));
        }
        let expired = processes.expired();
        assert_eq!(processes.lock().len() as u64 + expired.processes, MOST_LISTED as u64 + 10);
        assert_eq!((expired.processes, expired.counts.recorded()), (9, 9));
        assert!(processes.lock().contains_key(&PoolId::new(3)), "the host may still ask how it ended");
        assert!(!processes.lock().contains_key(&PoolId::new(4)));
        let last = processes.lock().values().map(|process| process.order).max();
        assert_eq!(last, Some(MOST_LISTED as u64 + 9), "the order in which they came is kept");
    }
}
