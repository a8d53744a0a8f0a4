//! Reports on the processes of a session, for the application.
//!
//! Created by the process table on request. They are plain values.

use std::process::ExitStatus;

use profiler_core::ids::{ByteLimit, ProcessId};

/// The state of a process, as far as the session knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessState {
    /// This process, the parent.
    Parent,
    /// Started; has not said hello.
    Starting,
    /// Connected and alive.
    Connected,
    /// The channel has closed, for this reason, but the process is not known to have ended.
    Disconnected(String),
    /// It executes another program (`exec`), so it records nothing more here. The new program may
    /// join the session as another process with the same process id.
    Executed,
    /// It has ended. `None` if its exit status is not known: other code in this process took it, or
    /// the process was started by another one and the system does not tell.
    Exited(Option<ExitStatus>),
}

/// A process of a session, with the figures of its memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessReport {
    /// Display name.
    pub name: String,
    /// Process id in the system.
    pub pid: ProcessId,
    /// The process id of its parent process: this process for a child that it has spawned;
    /// otherwise the process that was the parent when the process joined, if that is known.
    pub parent: Option<ProcessId>,
    /// Whether it was started by any process and joined by itself.
    pub has_joined: bool,
    /// State of the process.
    pub state: ProcessState,
    /// The reason why the process does not record here; `None` if it records.
    pub unprofiled: Option<String>,
    /// The process whose session records this process, if that is not this session: a process below
    /// this session has started a session of its own.
    pub recorded_by: Option<ProcessId>,
    /// Limit on the bytes of its pool.
    pub allowance: ByteLimit,
    /// Bytes that the pool held according to the latest report of the process.
    pub held_bytes: u64,
    /// Bytes that the pool occupies now, measured by the parent.
    pub true_bytes: u64,
    /// Bytes that the process was asked to free and has not yet confirmed as freed. A stopped
    /// process frees nothing; other processes free the bytes instead.
    pub owed_bytes: u64,
    /// Bytes that the pool occupies beyond all that the process was ever granted. Non-zero only if
    /// the process writes into its pool without the profiler, by a stray write or on purpose.
    pub excess_bytes: u64,
}
