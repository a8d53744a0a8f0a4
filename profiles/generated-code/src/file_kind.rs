//! The two formats of files that describe generated code.
//!
//! Used by the parsers and by [`crate::look_up`]. Invariant: of a file, at most
//! [`FileKind::largest`] bytes are read.

use crate::sys::NamespacePid;

/// Limit on the bytes read of one perf map.
const LARGEST_PERF_MAP: u64 = 256 << 20;
/// Limit on the bytes of one jitdump, most of which are code that is not read.
const LARGEST_JITDUMP: u64 = 1 << 30;

/// The formats of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    PerfMap,
    Jitdump,
}

impl FileKind {
    /// In the order in which they are read. A jitdump replaces names of a perf map.
    pub(crate) const ALL: [Self; 2] = [Self::PerfMap, Self::Jitdump];

    /// The name of the file of a process.
    pub(crate) fn name(self, pid: NamespacePid) -> String {
        match self {
            Self::PerfMap => format!("perf-{}.map", pid.get()),
            Self::Jitdump => format!("jit-{}.dump", pid.get()),
        }
    }

    /// Limit on the bytes of a file.
    pub(crate) const fn largest(self) -> u64 {
        match self {
            Self::PerfMap => LARGEST_PERF_MAP,
            Self::Jitdump => LARGEST_JITDUMP,
        }
    }
}

/// The entries of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Entries that were understood.
    pub(crate) entries: u64,
    /// Entries that were not.
    pub(crate) malformed: u64,
    /// Whether entries were left out: there are too many.
    pub(crate) is_cut: bool,
}
