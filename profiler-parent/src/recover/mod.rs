//! What a dead session left in its pool directory, made into a profile.
//!
//! Called by the `profiler` command and by whoever wants the same in a program. Works on the files
//! of [`crate::SessionBuilder::pool_directory`] alone, whatever became of their processes: they may be
//! dead or running. Invariants: nothing in the directory is changed, and nothing in it believed;
//! what is no pool of the session is named and passed over; the profile is written as a capture
//! writes it, through the same readers and writers, and appears only when it is complete.

mod find;
mod merge;
mod processed;
mod survey;
mod times;

use std::path::{Path, PathBuf};

pub use find::FindError;
pub use merge::{Recovery, recover};
pub use survey::{Life, Survey, SurveyedProcess, survey};

use crate::output::OutputError;

/// Why nothing was recovered.
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
        /// The system's reason.
        source: std::io::Error,
    },
    /// The part of the session's own process could not be written.
    #[error("cannot write the parent's part: {0}")]
    Root(String),
}

/// A file in a session's directory that is no pool of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// Its name.
    pub name: String,
    /// Why not.
    pub why: String,
}

/// The name that is shown for a path.
fn shown(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
