//! The directory in which observed programs make their files.
//!
//! Only this user may enter it. Memory is preferred: the files are as short-lived as the programs,
//! and making one on a disk takes several times as long.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A private directory, which is removed at the end of the session.
#[derive(Debug)]
pub(super) struct ObservedDirectory {
    path: PathBuf,
}

/// What the directory looked like when its names were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DirectoryState {
    changed: (i64, i64),
}

impl ObservedDirectory {
    /// Makes the directory.
    ///
    /// # Errors
    /// If no place has room for it.
    pub(super) fn new() -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places() {
            let mut builder = tempfile::Builder::new();
            builder.prefix("profiler-observed-");
            builder.permissions(fs::Permissions::from_mode(0o700));
            let made = builder.tempdir_in(&place).and_then(|directory| {
                // The mode of a new directory depends on the program's umask.
                fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700))?;
                Ok(directory.keep())
            });
            match made {
                Ok(path) => return Ok(Self { path }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A value that changes when a file is made or removed.
    ///
    /// # Errors
    /// If the directory is gone.
    pub(super) fn state(&self) -> io::Result<DirectoryState> {
        let about = fs::metadata(&self.path)?;
        Ok(DirectoryState {
            changed: (about.mtime(), about.mtime_nsec()),
        })
    }

    /// The names of all files.
    ///
    /// # Errors
    /// If the directory is gone.
    pub(super) fn names(&self) -> io::Result<Vec<OsString>> {
        fs::read_dir(&self.path)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect()
    }

    /// Removes the directory and the files in it. Programs that run keep their mappings.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Where the directory may be, best first.
fn places() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute());
    let memory = Some(PathBuf::from("/dev/shm"));
    runtime
        .into_iter()
        .chain(memory)
        .chain([std::env::temp_dir()])
        .collect()
}
