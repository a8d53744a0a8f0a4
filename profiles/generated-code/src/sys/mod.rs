//! What the system says about other processes and about the files that they write, with one
//! interface for all systems.
//!
//! `code_files` and `whereabouts` are complete; `portable` is the basis for all other systems,
//! where nothing is known. Both sides export the same names.

#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod code_files;
#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
mod portable;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
mod whereabouts;

#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use code_files::*;
#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
pub use portable::unix_now;
#[cfg(not(all(target_os = "linux", not(profiler_portable))))]
pub(crate) use portable::*;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub use whereabouts::unix_now;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(crate) use whereabouts::{unix_start, whereabouts};

use std::path::PathBuf;

use profiler_core::ids::{ProcessStart, UserId};
use profiler_core::time::UnixNs;

/// The number of a process in its own pid namespace. Other processes may know it by another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamespacePid(u32);

impl NamespacePid {
    /// Wraps the bare number.
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The bare number.
    pub(crate) const fn get(self) -> u32 {
        self.0
    }
}

/// What must be known of a process to find the files that it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    /// Its number in its own pid namespace, which is part of the names of its files.
    pub(crate) own_pid: NamespacePid,
    /// Its effective user, to whom its files belong.
    pub(crate) user: UserId,
    /// When it started.
    pub(crate) start: ProcessStart,
    /// Whether a path leads to the same file in that process and in this one.
    pub(crate) shares_paths: bool,
    /// Its working directory, if the two share paths.
    pub(crate) directory: Option<PathBuf>,
}

/// What the system says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    /// Whether it is a regular file: no link, no directory, no device.
    pub(crate) is_regular: bool,
    /// Its owner.
    pub(crate) owner: UserId,
    /// Who may write to it.
    pub(crate) writers: FileWriters,
    /// How many names it has.
    pub(crate) links: u32,
    /// Its size.
    pub(crate) bytes: u64,
    /// When it was last written to.
    pub(crate) changed: UnixNs,
    /// When it was created, if the file system knows.
    pub(crate) born: Option<UnixNs>,
}

/// Who may write to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileWriters {
    /// Its owner alone.
    Owner,
    /// Also a group that is not the owner's own.
    Group,
    /// Every user.
    All,
}
