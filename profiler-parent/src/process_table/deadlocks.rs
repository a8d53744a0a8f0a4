//! Deadlocks that were found while the session runs.
//!
//! Part of the [`ProcessTable`]. The threads that look up waits note them; the session shows them.

use std::fmt;
use std::sync::PoisonError;

use profiler_core::ids::ProcessId;

use super::ProcessTable;

/// The maximum number of deadlocks that are kept.
#[cfg(naming_waits)]
const MAX_DEADLOCKS: usize = 64;

/// Threads that wait for each other, so that none of them can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlock {
    /// The threads. Each waits for the next one, and the last one for the first.
    pub waits: Vec<DeadlockedWait>,
}

/// One of the threads of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadlockedWait {
    /// Its process.
    pub process: ProcessId,
    /// The name of the process.
    pub name: String,
    /// Its number.
    pub thread: u32,
    /// The label that its samples have: `waiting for NAME [NUMBER] (KIND)`.
    pub label: String,
}

impl fmt::Display for Deadlock {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, wait) in self.waits.iter().enumerate() {
            let before = if place == 0 { "" } else { "; " };
            let DeadlockedWait {
                process,
                name,
                thread,
                label,
            } = wait;
            write!(text, "{before}{name} [{process}]")?;
            if *thread != process.get() {
                write!(text, ", thread {thread}")?;
            }
            write!(text, " is {label}")?;
        }
        Ok(())
    }
}

impl Deadlock {
    /// What the profile says about a process, if a thread of it is a part of the deadlock.
    pub(crate) fn notice(&self, pid: ProcessId) -> Option<String> {
        let wait = self.waits.iter().find(|wait| wait.process == pid)?;
        Some(format!("deadlock: the process is {}", wait.label))
    }
}

impl DeadlockedWait {
    /// A wait of a thread of a process with this name.
    #[cfg(naming_waits)]
    pub(crate) const fn new(
        (process, thread): (ProcessId, u32),
        name: String,
        label: String,
    ) -> Self {
        Self {
            process,
            name,
            thread,
            label,
        }
    }
}

impl ProcessTable {
    /// Notes a deadlock.
    #[cfg(naming_waits)]
    pub(crate) fn note_deadlock(&self, waits: Vec<DeadlockedWait>) {
        let found = self.deadlocks.lock();
        let mut found = found.unwrap_or_else(PoisonError::into_inner);
        if found.len() < MAX_DEADLOCKS {
            found.push(Deadlock { waits });
        }
    }

    /// The deadlocks from this number on, the first ones first.
    pub(crate) fn deadlocks_from(&self, number: usize) -> Vec<Deadlock> {
        let found = self.deadlocks.lock();
        let found = found.unwrap_or_else(PoisonError::into_inner);
        found.get(number..).unwrap_or_default().to_vec()
    }

    /// The deadlocks that were found, the first ones first.
    pub(crate) fn deadlocks(&self) -> Vec<Deadlock> {
        let found = self.deadlocks.lock();
        found.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
