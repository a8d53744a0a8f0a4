//! The first exchange at a session's address.
//!
//! Built and read by [`crate::transport::joining`] and its callers. A process that joins sends one
//! request and gets one answer. After a welcome, the process sends its [`Hello`](super::Hello) over the
//! same socket, and is from then on like any child. A process that has a session of its own reports
//! the processes that its session records, and gets no answer.
//! Invariant: a frame begins with the version in every version, so a process of another version is
//! recognised.

use profiler_core::ids::{ProcessId, ProcessStart};
use serde::{Deserialize, Serialize};

use crate::environment::Token;

/// The first packet of a process that connects to a session's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opening {
    /// It asks for a pool.
    Join(JoinRequest),
    /// It reports a process that its own session records.
    RecordedElsewhere(RecordedElsewhere),
}

/// A process that another session records, so that it cannot join. All fields are claims of the
/// process that has that session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedElsewhere {
    /// The token of the session that receives this.
    pub token: Token,
    /// The name of the recorded process.
    pub name: String,
    /// The number of the recorded process.
    pub pid: ProcessId,
    /// The start time of the recorded process; 0 if it is not known.
    pub start: ProcessStart,
    /// The process that started the recorded process; 0 if it is not known.
    pub parent: ProcessId,
    /// The process that has the session which records it.
    pub session: ProcessId,
}

/// A process asks for a pool. All fields are its claims; the session
/// takes the process number and the user from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The session's token.
    pub token: Token,
    /// The file name of the process's program; empty if it is not known.
    pub name: String,
    /// The start time of the process.
    pub start: ProcessStart,
    /// The process that started it.
    pub parent: ProcessId,
    /// For how many milliseconds the process waits for the answer.
    pub patience_ms: u32,
}

/// The session's answer. The packet of a welcome carries the descriptor of the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JoinAnswer {
    /// The process may record.
    Welcome {
        /// The token for the process's `Hello`.
        token: Token,
    },
    /// The process may not record, for this reason.
    Refused(JoinRefusal),
}

/// Why a session does not let a process join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum JoinRefusal {
    /// The process does not know the session's token.
    #[error("the process does not know the session's token")]
    WrongToken,
    /// The process speaks another version of the protocol.
    #[error("the process speaks version {theirs} of the protocol, the session version {ours}")]
    WrongVersion {
        /// The process's version.
        theirs: u32,
        /// The session's version.
        ours: u32,
    },
    /// The process belongs to another user.
    #[error("the process belongs to another user")]
    OtherUser,
    /// The system does not show the process to the session.
    #[error("the process is not visible from the session's own process")]
    Invisible,
    /// The request is not one of this protocol.
    #[error("the process sent {0}")]
    Misbehaved(String),
    /// The memory limit has no room for the process.
    #[error("{0}")]
    NoMemory(String),
    /// Another profiler in this process records for the session.
    #[error("another profiler in this process records for the session")]
    AlreadyRecords,
    /// The system refused a file or a descriptor.
    #[error("{0}")]
    System(String),
}
