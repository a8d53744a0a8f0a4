//! Threads that wait for a process: for its end, for its hello, or for news of how it ended. What
//! the application tells about an end.
//!
//! Part of the [`ProcessTable`]. Used by the handles of the application and by captures.
//! Invariants: each change of a process wakes the waiting threads; a capture waits for a limited
//! time; while a thread waits for a released child, the table is not locked.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, ExitStatus};
use std::sync::PoisonError;
use std::time::Duration;

use profiler_core::ids::PoolId;

use super::{ProcessState, ProcessTable, Remains, TrackedProcess};

impl ProcessTable {
    /// Whether a process has attached its pool.
    pub(crate) fn has_begun(&self, key: PoolId) -> bool {
        let known = self
            .lock()
            .get(&key)
            .map(|process| (process.said_hello, process.remains.clone()));
        known.is_some_and(|(said_hello, remains)| said_hello || remains.is_taken())
    }

    /// Waits until a process has ended.
    pub(crate) fn wait_for_end(&self, key: PoolId) -> Option<ExitStatus> {
        let mut all = self.lock();
        loop {
            match all.get(&key).map(|process| &process.state) {
                Some(ProcessState::Exited(status)) => return *status,
                None => return None,
                Some(_) if all.get(&key).is_some_and(|process| process.is_unwatched) => {
                    return None;
                }
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
    /// A child whose exit status another library takes cannot be waited for any more.
    pub(crate) fn release(&self, take_children: impl FnOnce() -> Vec<(PoolId, Child)>) {
        let mut all = self.lock();
        for process in all.values_mut() {
            process.is_unwatched = process.has_status_of_host;
        }
        for (key, child) in take_children() {
            if let Some(process) = all.get_mut(&key) {
                process.released = Some(child);
            }
        }
        drop(all);
        self.changed.notify_all();
    }

    /// Notes the exit status of a process, which other code has taken.
    pub(crate) fn tell_status(&self, key: PoolId, status: ExitStatus) {
        self.change(key, |process| {
            process.told_status = Some(status);
            if process.is_unwatched || process.state == ProcessState::Exited(None) {
                process.state = ProcessState::Exited(Some(status));
            }
        });
    }

    /// The exit status that the application has told.
    pub(crate) fn told_status(&self, key: PoolId) -> Option<ExitStatus> {
        self.lock().get(&key)?.told_status
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
    fn wait_while(
        &self,
        patience: Duration,
        mut holds: impl FnMut(&BTreeMap<PoolId, TrackedProcess>) -> bool,
    ) {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), patience, |all| holds(all));
        drop(waited);
    }

    /// Waits, for at most `patience`, until the ends of processes that are ending, and of processes
    /// whose channel has closed, are known.
    pub(crate) fn await_news(&self, keys: impl Iterator<Item = PoolId>, patience: Duration) {
        let keys: Vec<PoolId> = keys.collect();
        let running: Vec<(PoolId, u32)> = {
            let all = self.lock();
            let known = keys.iter().filter_map(|key| Some((*key, all.get(key)?)));
            known
                .filter(|(_, process)| process.seems_to_run())
                .map(|(key, process)| (key, process.pid.get()))
                .collect()
        };
        let ending = running
            .iter()
            .filter(|(_, pid)| crate::sys::is_ending(*pid))
            .map(|(key, _)| *key);
        let ending: BTreeSet<PoolId> = ending.collect();
        self.wait_while(patience, |all| {
            let is_open = |key: &PoolId| {
                let ends = |process: &TrackedProcess| {
                    process.has_hung_up() || process.seems_to_run() && ending.contains(key)
                };
                all.get(key).is_some_and(ends)
            };
            keys.iter().any(is_open)
        });
    }

    /// Waits, for at most `patience`, for the hello of new processes that already record.
    pub(crate) fn await_hellos(&self, patience: Duration) {
        let is_new = |process: &TrackedProcess| process.state == ProcessState::Starting;
        let new: Vec<(PoolId, Remains)> = {
            let all = self.lock();
            all.iter()
                .filter(|(_, process)| is_new(process))
                .map(|(key, process)| (*key, process.remains.clone()))
                .collect()
        };
        let begun: Vec<PoolId> = new
            .iter()
            .filter(|(_, pool)| pool.is_taken())
            .map(|(key, _)| *key)
            .collect();
        if !begun.is_empty() {
            let is_silent = |key: &PoolId, all: &BTreeMap<PoolId, TrackedProcess>| {
                all.get(key).is_some_and(is_new)
            };
            self.wait_while(patience, |all| begun.iter().any(|key| is_silent(key, all)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::sync::Arc;

    use profiler_core::ids::ProcessId;
    use profiler_core::session::EntryCounts;

    use super::*;

    const KEY: PoolId = PoolId::new(7);

    /// A table with a running child whose exit status another library takes.
    fn with_child_of_host() -> Arc<ProcessTable> {
        let table = ProcessTable::default();
        let remains = Remains::Expired(EntryCounts::default());
        let state = ProcessState::Connected;
        let child = TrackedProcess::new("child", ProcessId::new(1), state, remains);
        table.add(KEY, child.with_status_of_host(true));
        Arc::new(table)
    }

    fn killed() -> ExitStatus {
        ExitStatus::from_raw(9)
    }

    #[test]
    fn a_status_that_the_application_tells_is_known_whether_the_end_is_noticed_before_or_after() {
        let table = with_child_of_host();
        table.tell_status(KEY, killed());
        assert_eq!(table.reports()[0].state, ProcessState::Connected);
        assert_eq!(table.told_status(KEY), Some(killed()));

        let table = with_child_of_host();
        table.note_exit_alone(KEY, None);
        assert_eq!(table.wait_for_end(KEY), None);
        table.tell_status(KEY, killed());
        assert_eq!(table.wait_for_end(KEY), Some(killed()));

        let table = with_child_of_host();
        table.note_exit_alone(KEY, Some(ExitStatus::from_raw(0)));
        table.tell_status(KEY, killed());
        let known = Some(ExitStatus::from_raw(0));
        assert_eq!(table.wait_for_end(KEY), known, "the system knows better");
    }

    #[test]
    fn no_thread_waits_for_a_child_of_another_library_after_the_session() {
        let table = with_child_of_host();
        let waiting = Arc::clone(&table);
        let wait = move || waiting.wait_for_end(KEY);
        let waiter = profiler_sys::spawn_quiet("waiter", wait).unwrap();
        table.release(Vec::new);
        assert_eq!(waiter.join().unwrap(), None);
        assert_eq!(table.wait_for_end(KEY), None);
        table.tell_status(KEY, killed());
        assert_eq!(table.wait_for_end(KEY), Some(killed()));
    }
}
