//! What an application learns about the processes of its session.
//!
//! Made by the process table on request. Plain values.

use std::process::ExitStatus;

use profiler_core::ids::{ByteLimit, ProcessId};

/// What a process is doing, as far as the session knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessState {
    /// This process, the parent.
    Parent,
    /// Started; has not said hello.
    Starting,
    /// Connected and alive.
    Connected,
    /// Its channel has ended, for this reason, but the process lives.
    Disconnected(String),
    /// It has ended. `None`: other code in this process took its exit status.
    Exited(Option<ExitStatus>),
}

/// One process of a session with its memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessReport {
    /// Shown name.
    pub name: String,
    /// System number.
    pub pid: ProcessId,
    /// What it is doing.
    pub state: ProcessState,
    /// Why it does not record, if so.
    pub unprofiled: Option<String>,
    /// What it may hold.
    pub allowance: ByteLimit,
    /// What it held by its latest report, in bytes.
    pub held_bytes: u64,
    /// What its pool really occupies now, in bytes.
    pub true_bytes: u64,
    /// What it was asked to give back and has not yet shown to have given. It stays so while the
    /// process stands still; others give it then.
    pub owed_bytes: u64,
    /// What its pool occupies beyond all that it was ever allowed. Not zero only for a process that
    /// writes into its pool past the profiler: wildly, or with intent.
    pub excess_bytes: u64,
}
