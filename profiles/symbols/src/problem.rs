//! The reasons why addresses of a module have no names, or fewer than possible.
//!
//! Reported per module in [`super::ModuleReport`]. Invariant: no problem fails a capture.

use std::io;
use std::path::PathBuf;

/// A reason for missing names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A file cannot be opened or read.
    #[error("cannot read {path:?}: {reason}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::ErrorKind,
    },
    /// The process's file is not a regular file.
    #[error("{0:?} is not a regular file")]
    NotAFile(PathBuf),
    /// The build id of the file differs from that of the process.
    #[error("{0:?} is not the file that the process ran: it was replaced")]
    Replaced(PathBuf),
    /// The process's file had no build id, so it is unknown whether this is the same file.
    #[error("{0:?} has no build id: it may have been replaced")]
    Unverified(PathBuf),
    /// The file is not a readable executable.
    #[error("{path:?} is damaged or not an ELF file: {reason}")]
    NotElf {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The debug information is inconsistent; the part read before the defect is used.
    #[error("debug information of {path:?} is damaged: {reason}")]
    BadDebugInformation {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The debug information exceeds the limits; the part read before that is used.
    #[error("{0:?} has more debug information than the limit allows")]
    TooMuch(PathBuf),
    /// The earlier files used up the limit for one capture, or one call: see
    /// [`sum_limit`](super::SymbolOptions::sum_limit).
    #[error("{0:?} was not read: earlier files used up the limit on bytes read")]
    NotRead(PathBuf),
    /// The number of items exceeds the limit per file; the items within the limit are used.
    #[error("{path:?} has too many {what}: {count} are left out")]
    LeftOut {
        /// The file.
        path: PathBuf,
        /// The kind of the items.
        what: &'static str,
        /// The number of items left out, at least.
        count: u64,
    },
    /// The system cannot start a thread, or has no memory for its stack.
    #[error("cannot start a thread to look up names: {0}")]
    NoThread(io::ErrorKind),
    /// A defect of the profiler: it panicked on this file.
    #[error("the look-up of names in {0:?} panicked")]
    Panicked(PathBuf),
    /// The program refers to a split file with its debug information, and that file is missing.
    #[error("the file {0:?} with debug information is missing")]
    NoSplitFile(PathBuf),
}

impl Problem {
    /// Whether existing information was left out because of a limit or a failure of the profiler.
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
