//! Why a profile cannot be exported or imported.

use std::path::{Path, PathBuf};

use profiler_files::output::OutputError;
use profiler_reader::ReadError;

/// The reason why the export failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The profile cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The profile.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The file to import is not a `.cpuprofile` file.
    #[error("{} is not a .cpuprofile file: {why}", path.display())]
    NotACpuProfile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file is not a profile.
    #[error("{} is not a profile: {why}", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The output would overwrite the input.
    #[error("{} is the input file: choose another output", path.display())]
    Onto {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be created or completed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Writing to the output or its directory fails. Also returned if the export would have more
    /// than a thousand times the bytes of the profile plus 256 MiB, which no real profile reaches.
    #[error("cannot write the export: {0}")]
    Write(#[from] std::io::Error),
    /// The receiver of the output wants no more of it.
    #[error("the receiver of the export has stopped")]
    Stopped,
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Read { path, source } => Self::Read { path, source },
            ReadError::NotAProfile { path, why } => Self::NotAProfile { path, why },
        }
    }
}

/// Returns an error if the output is the input, under any name.
pub(crate) fn not_onto_itself(from: &Path, to: &Path) -> Result<(), ExportError> {
    match (from.canonicalize(), to.canonicalize()) {
        (Ok(read), Ok(written)) if read == written => Err(ExportError::Onto {
            path: to.to_owned(),
        }),
        _ => Ok(()),
    }
}
