//! Why a session could not start.

use profiler_core::session::StartError;

use crate::pools::PoolDirectoryError;
use crate::supervisor::LocalProcessError;

/// The reason why a session could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The memory limit is too small for this process alone.
    #[error(
        "a memory limit of {limit} bytes is too small, this process alone needs {needed} bytes"
    )]
    LimitTooSmall {
        /// The limit.
        limit: u64,
        /// The minimum that is needed.
        needed: u64,
    },
    /// A filter of threads can select nothing.
    #[error("the filter {filter:?} selects no thread: {why}")]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There are more filters of threads than a session can have.
    #[error("{count} filters are too many; a session can have {most}")]
    TooManyFilters {
        /// The number of filters.
        count: usize,
        /// The most.
        most: usize,
    },
    /// This process already runs a session.
    #[error("this process already runs a session")]
    AlreadyRunning,
    /// Recording could not start in this process.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Pools cannot be kept in the requested directory.
    #[error(transparent)]
    Pools(#[from] PoolDirectoryError),
    /// The system refused a thread or a descriptor.
    #[error("cannot start the session: {0}")]
    System(#[from] std::io::Error),
}

impl From<LocalProcessError> for SessionError {
    fn from(error: LocalProcessError) -> Self {
        match error {
            LocalProcessError::LimitTooSmall { limit, needed } => {
                Self::LimitTooSmall { limit, needed }
            }
            LocalProcessError::Start(error) => Self::Start(error),
            LocalProcessError::System(error) => Self::System(error),
        }
    }
}
