//! Processes that are being spawned without resources: they run before they are in the table.
//!
//! Part of the [`ProcessTable`]. Such a process may join, or end, before the call that spawns it
//! has returned its number. Invariant: a search for such a process waits, for a limited time, until
//! the process is added, so that it does not get a second entry.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;

use super::ProcessTable;

/// The maximum time for which a search waits. A spawn takes far less time, even on a busy machine.
const PATIENCE: Duration = Duration::from_millis(500);

/// Exists while a process is being spawned, until it is in the table.
#[derive(Debug)]
pub(crate) struct Spawning<'a>(&'a ProcessTable);

impl ProcessTable {
    /// Announces that a process is about to be spawned without resources.
    pub(crate) fn begin_spawn(&self) -> Spawning<'_> {
        self.spawning.fetch_add(1, Ordering::Relaxed);
        Spawning(self)
    }

    /// Waits until a process is in the table, if it may be one that is being spawned. `parent` is
    /// the process that has started it, if that is known.
    pub(super) fn await_spawned(&self, pid: ProcessId, parent: Option<ProcessId>) {
        let is_spawning = || self.spawning.load(Ordering::Relaxed) > 0;
        let is_of_another = parent.is_some_and(|parent| parent != sys::process_id());
        if !is_spawning() || is_of_another || self.awaiting.contains(pid) {
            return;
        }
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), PATIENCE, |all| {
                is_spawning() && !all.values().any(|process| process.pid == pid)
            })
            .unwrap_or_else(PoisonError::into_inner);
        drop(waited);
    }
}

impl Drop for Spawning<'_> {
    fn drop(&mut self) {
        let all = self.0.lock();
        self.0.spawning.fetch_sub(1, Ordering::Relaxed);
        drop(all);
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use profiler_core::ids::PoolId;
    use profiler_core::session::EntryCounts;

    use super::super::{ProcessState, Remains, TrackedProcess};
    use super::*;

    /// No process has this number.
    const PID: ProcessId = ProcessId::new(u32::MAX - 1);

    fn add(table: &ProcessTable) {
        let remains = Remains::Expired(EntryCounts::default());
        let process = TrackedProcess::new("p", PID, ProcessState::Starting, remains);
        table.add(PoolId::new(1), process);
    }

    #[test]
    fn a_process_that_is_being_spawned_is_waited_for_and_another_one_is_not() {
        let table = Arc::new(ProcessTable::default());
        let own = Some(sys::process_id());
        table.await_spawned(PID, own); // no process is being spawned: it returns
        let spawning = table.begin_spawn();
        table.await_spawned(PID, Some(PID)); // of another process: it returns
        let waiting = Arc::clone(&table);
        let (sender, waits) = crossbeam_channel::bounded(0);
        let waiter = profiler_sys::spawn_quiet("waiter", move || {
            let _ = sender.send(());
            waiting.await_spawned(PID, own);
            waiting.lock().len()
        })
        .unwrap();
        assert!(waits.recv().is_ok());
        std::thread::sleep(PATIENCE / 4);
        assert!(!waiter.is_finished(), "it does not wait");
        add(&table);
        drop(spawning);
        assert_eq!(waiter.join().ok(), Some(1));
    }
}
