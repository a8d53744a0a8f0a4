//! Makes a profile of the data that a dead session left in its pool directory.
//!
//! Called by the `profiler` command and by applications. Uses only the files of
//! [`crate::SessionBuilder::pool_directory`]; their processes may be dead or running. Invariants:
//! nothing in the directory is changed or trusted; files that are not pools of the session are
//! named and skipped; the profile is written as in a capture, with the same readers and writers,
//! and appears only when it is complete.

mod find;
mod merge;
mod pool_recovery;
mod processed_recovery;
mod survey;
mod times;

use std::path::{Path, PathBuf};

pub use find::FindError;
pub use merge::Recovery;
pub use pool_recovery::{PoolRecovery, recover};
pub use survey::{Life, Survey, SurveyedProcess, survey};

use profiler_files::output::OutputError;

/// The reason why nothing was recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// There are no pools of a session.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The profile cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The profile could not be written to the end.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The part of the session's own process could not be written.
    #[error("cannot write the parent's part: {0}")]
    Root(String),
}

/// A file in a session's directory that is not a pool of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Its name.
    pub name: String,
    /// The reason why it is not.
    pub why: String,
}

/// The display name of a path: its last component.
fn shown(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
