//! Why a session that the environment asks for could not start.

use ipc_protocol::environment::StartupError;
use profiler_files::output::OutputError;

use crate::session::SessionError;
use crate::sys::SignalTaken;

/// The reason why a session that the environment asks for could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvSessionError {
    /// The value of the variable is not understood.
    #[error(transparent)]
    Options(#[from] StartupError),
    /// The profile cannot be written to the file.
    #[error(transparent)]
    File(#[from] OutputError),
    /// `SIGUSR2` is used by the program, or by the one that has started it.
    #[error("the profile cannot be written at a SIGUSR2: {0}")]
    Signal(#[from] SignalTaken),
    /// The session cannot start.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The system refused the thread that writes the profile.
    #[error("cannot start a thread to write the profile: {0}")]
    Thread(#[source] std::io::Error),
}
