//! The interface on systems without an engine, such as Windows: the same names, which do nothing.
//!
//! Called by applications that are built for several systems. Invariants: every name has the
//! signature that it has on Unix; nothing reads the environment, starts a thread or makes a system
//! call. The types are distinct from those on Unix, where they are documented.

use std::fmt;
use std::time::Duration;

/// How long [`init`] waits for a session on systems where sessions exist.
pub const JOIN_WAIT: Duration = Duration::from_millis(20);

/// The outcome of [`init`]: always [`Status::NoParent`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Status {
    /// This process records. Does not happen on this system.
    Recording,
    /// The session has not answered in time. Does not happen on this system.
    Joining,
    /// This process records for a session of its own. Does not happen on this system.
    Started,
    /// There is no session on this system.
    NoParent,
    /// The process has begun before. Does not happen on this system.
    AlreadyDone,
    /// The profiler is off, for this reason. Does not happen on this system.
    Off(InitError),
}

/// Why the profiler stays off. There is no value of this type on this system.
#[derive(Debug)]
#[non_exhaustive]
pub enum InitError {}

impl fmt::Display for InitError {
    fn fmt(&self, _formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for InitError {}

/// Does nothing.
pub fn init() -> Status {
    Status::NoParent
}

/// Does nothing.
pub fn init_within(_patience: Duration) -> Status {
    Status::NoParent
}

/// Does nothing.
pub fn shutdown() {}
