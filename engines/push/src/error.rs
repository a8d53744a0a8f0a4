//! Why nothing can be pushed.

use std::io;
use std::path::PathBuf;

use profiler_files::secret_file::SecretError;

/// The reason why nothing can be pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// The address of a destination cannot be used.
    #[error("cannot push to {address:?}: {reason}")]
    Address {
        /// The address, without user and password.
        address: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A secret cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The directory of the spool cannot be used.
    #[error("cannot use the spool {}: {source}", path.display())]
    Spool {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A file that is to be pushed cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The system refused a thread.
    #[error("cannot start a thread for pushing: {0}")]
    Thread(#[source] io::Error),
    /// The options have no destination.
    #[error("there is no destination")]
    NoDestination,
}
