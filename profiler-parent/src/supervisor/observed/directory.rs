//! The directory in which observed programs make their files.
//!
//! Only this user may enter it. Memory is preferred: the files are as short-lived as the programs,
//! and making one on a disk takes several times as long. A session holds a lock on its directory. A
//! new session removes the directories of this user that are not locked, because their sessions
//! were killed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use profiler_observed::file::ObservedFile;
use profiler_sys::OwnFile;
use rustix::fs::StatVfsMountFlags;

/// How the name of a directory begins.
const PREFIX: &str = "profiler-observed-";
/// The room that a file system should have. It suffices for about a hundred programs.
const ROOM: u64 = 16 << 20;
/// The time after its last change during which a directory counts as new.
const NEW: Duration = Duration::from_secs(60);

/// A private directory, which is removed at the end of the session.
#[derive(Debug)]
pub(super) struct ObservedDirectory {
    path: PathBuf,
    /// The directory, with a lock. `None` if the file system has no locks.
    locked: Option<OwnFile>,
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
            remove_left_over(&place);
            let mut builder = tempfile::Builder::new();
            builder.prefix(PREFIX);
            builder.permissions(fs::Permissions::from_mode(0o700));
            let made = builder.tempdir_in(&place).and_then(|directory| {
                // The mode of a new directory depends on the program's umask.
                fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700))?;
                Ok(directory.keep())
            });
            match made {
                Ok(path) => {
                    let locked = locked(&path).map(OwnFile::from);
                    return Ok(Self { path, locked });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether no program can make its file at present: the file system has no room, or is
    /// read-only.
    pub(super) fn is_full(&self) -> bool {
        rustix::fs::statvfs(&self.path).is_ok_and(|about| {
            let free = about.f_bavail.saturating_mul(about.f_frsize);
            free < ObservedFile::first_bytes() || about.f_flag.contains(StatVfsMountFlags::RDONLY)
        })
    }

    /// A value that changes when a file is made or removed.
    ///
    /// # Errors
    /// If the directory is gone.
    pub(super) fn state(&self) -> io::Result<DirectoryState> {
        // A descriptor needs no look-up of the path.
        let open = self.locked.as_ref().and_then(|locked| locked.get().ok());
        let about = open.map_or_else(|| fs::metadata(&self.path), fs::File::metadata)?;
        if about.nlink() == 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
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

/// Removes the directories of killed sessions of this user.
fn remove_left_over(place: &Path) {
    let own = rustix::process::geteuid().as_raw();
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let named = entries.filter(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
    });
    for path in named.map(|entry| entry.path()) {
        let is_left_over = fs::symlink_metadata(&path).is_ok_and(|about| {
            let changed = about.modified().ok().and_then(|at| at.elapsed().ok());
            about.is_dir() && about.uid() == own && changed.is_some_and(|age| age > NEW)
        });
        // A directory that is not new is locked, unless its session was killed.
        if is_left_over && let Some(lock) = locked(&path) {
            let _ = fs::remove_dir_all(&path);
            drop(lock);
        }
    }
}

/// Locks a directory. `None` if that is not possible, for example because its session holds the
/// lock.
fn locked(path: &Path) -> Option<fs::File> {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = open(path, flags, Mode::empty()).ok()?;
    flock(&directory, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(directory.into())
}

/// The places for the directory, the best one first. Places without room come last.
fn places() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute());
    let memory = Some(PathBuf::from("/dev/shm"));
    let all = runtime.into_iter().chain(memory);
    let mut all: Vec<PathBuf> = all.chain([std::env::temp_dir()]).collect();
    all.sort_by_key(|place| !has_room(place));
    all
}

/// Whether a file system reports that it has room for the files of some programs.
fn has_room(place: &Path) -> bool {
    rustix::fs::statvfs(place)
        .is_ok_and(|about| about.f_bavail.saturating_mul(about.f_frsize) >= ROOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_directories_of_killed_sessions_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let old = rustix::fs::Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let times = rustix::fs::Timestamps {
            last_access: old,
            last_modification: old,
        };
        let make = |name: &str, is_old: bool| {
            let path = place.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), "text").unwrap();
            let directory = fs::File::open(&path).unwrap();
            if is_old {
                rustix::fs::futimens(directory, &times).unwrap();
            }
            path
        };
        let left = make("profiler-observed-1", true);
        let new = make("profiler-observed-2", false);
        let held = make("profiler-observed-3", true);
        let other = make("another", true);
        let _lock = locked(&held).unwrap();
        remove_left_over(place.path());
        assert!(!left.exists());
        assert!(new.exists() && held.exists() && other.exists());
    }
}
