//! Sets of process numbers. With them, the answer "no" to a frequent question about a process needs
//! no search through the whole table.
//!
//! Part of the [`super::ProcessTable`], which may have thousands of entries. Invariants: a number
//! may remain after its process has ended, so callers check the answer "yes" in the table; a set
//! has at most as many entries as the system has process numbers.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler_core::ids::ProcessId;

/// A set of numbers of processes.
#[derive(Debug, Default)]
pub(super) struct PidSet(Mutex<HashSet<ProcessId>>);

impl PidSet {
    pub(super) fn insert(&self, pid: ProcessId) {
        self.lock().insert(pid);
    }

    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(super) fn contains(&self, pid: ProcessId) -> bool {
        self.lock().contains(&pid)
    }

    /// Removes a number. Returns whether the set had it.
    pub(super) fn take(&self, pid: ProcessId) -> bool {
        self.lock().remove(&pid)
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<ProcessId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
