//! Why crashes are not recorded.

use std::io;

/// Why crashes are not recorded, or not all of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrashError {
    /// The system refused a handler.
    #[error("no handler for signal {signal}: {error}")]
    Handler {
        /// The signal.
        signal: i32,
        /// The reason.
        error: io::Error,
    },
    /// Another handler has replaced the one of this crate. Installing it again could call the two
    /// in a circle.
    #[error("another handler has replaced the one for signal {signal}")]
    Replaced {
        /// The signal.
        signal: i32,
    },
    /// The thread has no alternate signal stack, and the system refused one.
    #[error("no alternate signal stack: {0}")]
    AlternateStack(io::Error),
    /// The thread that prepares the memory for a crash could not be started.
    #[error("no thread: {0}")]
    Thread(io::Error),
    /// Too many functions are called at the start of a session.
    #[error("too many packages of the profiler follow its sessions")]
    TooManySwitches,
}
