//! The implementation for other systems: nothing is known of the files of another process.

use std::io;
use std::path::{Path, PathBuf};

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::time::UnixNs;
use profiler_sys::FoundFile;

use super::{FileFacts, Whereabouts};

/// Not known on this system.
pub(crate) const fn whereabouts(_: ProcessId) -> Option<Whereabouts> {
    None
}

/// Needed only for a process whose whereabouts are known.
pub const fn unix_now() -> UnixNs {
    UnixNs(0)
}

/// Needed only for a process whose whereabouts are known.
pub(crate) const fn unix_start(_: ProcessStart) -> UnixNs {
    UnixNs(0)
}

/// A value that cannot exist.
#[derive(Debug)]
enum Never {}

/// Never created on this system.
#[derive(Debug)]
#[allow(dead_code)]
pub(crate) struct CodeDirectory(Never);

/// There are no such directories on this system.
pub(crate) fn temporary_directory_of(_: ProcessId) -> io::Result<CodeDirectory> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There are no such directories on this system.
pub(crate) fn directory_of_mapped(_: ProcessId, _: &str) -> io::Result<Option<CodeDirectory>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There are no such directories on this system.
pub(crate) fn own_temporary_directory() -> io::Result<CodeDirectory> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There are no such directories on this system.
pub(crate) fn directory_at(_: &Path) -> io::Result<CodeDirectory> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Needed only for files in a [`CodeDirectory`], of which there are none.
pub(crate) fn facts_of_file(_: &FoundFile) -> io::Result<FileFacts> {
    Err(io::ErrorKind::Unsupported.into())
}

impl CodeDirectory {
    /// Never called.
    pub(crate) fn path_to(&self, _: &str) -> PathBuf {
        match self.0 {}
    }

    /// Never called.
    pub(crate) fn is_same(&self, _: &Self) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub(crate) fn find(&self, _: &str, _: bool) -> io::Result<FoundFile> {
        match self.0 {}
    }
}
