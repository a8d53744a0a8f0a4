//! Why addresses of a module have no names, or fewer than they could.
//!
//! Told per module in [`super::ModuleReport`]; none of it fails a capture.

use std::io;
use std::path::PathBuf;

/// One reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be opened or read.
    #[error("cannot read {path:?}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: io::ErrorKind,
    },
    /// What the process had is no regular file.
    #[error("{0:?} is no regular file")]
    NotAFile(PathBuf),
    /// The file is not the one that the process had: its build id is another.
    #[error("{0:?} is not what the process ran: it was replaced")]
    Replaced(PathBuf),
    /// The process's file had no build id, so it cannot be known whether this is the same.
    #[error("{0:?} has no build id: it may have been replaced")]
    Unverified(PathBuf),
    /// No executable file that we can read.
    #[error("{path:?} is damaged or no ELF file: {reason}")]
    NotElf {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Debug information that does not add up; what was read before that is used.
    #[error("debug information of {path:?} is damaged: {reason}")]
    BadDebugInformation {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// More than the limits allow; what was read before that is used.
    #[error("{0:?} has more debug information than is allowed to be read")]
    TooMuch(PathBuf),
    /// The files before it were more than may be read in one capture, or one call: see
    /// [`sum_limit`](super::SymbolOptions::sum_limit).
    #[error("{0:?} is not read: the files before it were more than is allowed to be read at once")]
    NotRead(PathBuf),
    /// More of something than is ever told of one file, or kept of it; what is left has been told.
    #[error("{path:?} has too many {what}: {count} are left out")]
    LeftOut {
        /// The file.
        path: PathBuf,
        /// Of what.
        what: &'static str,
        /// How many, at least.
        count: u64,
    },
    /// The system cannot start a thread, or has no memory for its stack.
    #[error("no thread to look up names on: {0}")]
    NoThread(io::ErrorKind),
    /// A defect of the profiler: it panicked on this file.
    #[error("looking up names in {0:?} panicked")]
    Panicked(PathBuf),
    /// The program was built to have its debug information in a file of its own, which is not there.
    #[error("no debug information {0:?}")]
    NoSplitFile(PathBuf),
}

impl Problem {
    /// Whether something that is there was not told, because it would have been too much.
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::TooMuch(_)
                | Self::NotRead(_)
                | Self::LeftOut { .. }
                | Self::NoThread(_)
                | Self::Panicked(_)
        )
    }
}
