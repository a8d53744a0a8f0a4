//! The directory from which programs load a library of the command.
//!
//! ```text
//! ~/.cache/multiprocess-profiler/library-0123456789abcdef/
//!     libprofiler_observed.so
//! ```
//!
//! The path has no part that the loader replaces, such as `$LIB`: to replace it, the loader reads a
//! link in `/proc`, which takes 20 to 80 µs.
//!
//! The number in the name is a hash of the library. The directory stays after the recording,
//! because programs that outlive it still look for the library when they start other programs. A
//! new build removes directories that no command has used for a month.
//!
//! Root uses `/var/cache` and lets all users read its directories, because its programs change
//! their user and then start other programs, whose loader would report a library that it cannot
//! read. Invariants: only this user and root can write to the directory or rename a directory above
//! it (`trust`); the file has exactly the expected bytes; it appears under its name only when it is
//! complete.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};

use super::trust::{make_base, make_private};

/// When a directory of another build is removed, after its last use.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// When a file is removed that a killed command has not finished.
const UNFINISHED: Duration = Duration::from_secs(3600);
/// How the name of a directory begins, and how it began in earlier versions.
const PREFIX: &str = "library-";
const EARLIER_PREFIX: &str = "agent-";
/// How the name of an unfinished file begins.
const PART: &str = ".part-";

/// Whether the loader takes this path as it is.
fn is_usable_by_loader(path: &Path) -> bool {
    let path = path.to_string_lossy();
    path.starts_with('/') && !path.contains([' ', '\t', '\n', ':', '$', '%'])
}

/// Writes a library under this name into a directory below `base`, and notes that it is used.
pub(super) fn place(base: &Path, name: &Path, library: &[u8]) -> io::Result<PathBuf> {
    let base = make_base(base)?;
    let directory = base.join(format!("{PREFIX}{:016x}", hash(library)));
    if !is_usable_by_loader(&directory) {
        return Err(io::Error::other(super::UNUSABLE));
    }
    make_private(&directory)?;
    if write(&directory, name, library)? {
        remove_unused(&base, &directory);
    }
    note_use(&directory);
    Ok(directory)
}

/// Writes the library into a directory, unless it is there. Returns whether it has.
fn write(directory: &Path, name: &Path, library: &[u8]) -> io::Result<bool> {
    make_private(directory)?;
    remove_old(directory, PART, UNFINISHED);
    let is_there = fs::read(directory.join(name)).is_ok_and(|found| found == library);
    if !is_there {
        write_whole(&directory.join(name), library, 0o755)?;
    }
    Ok(!is_there)
}

fn hash(library: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(library);
    hasher.finish()
}

/// Writes a file under another name, then renames it. Several commands may do so at once, and
/// programs may use an older file of that name.
pub(crate) fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(PART)
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    let permissions = fs::Permissions::from_mode(mode);
    file.as_file().set_permissions(permissions)?;
    file.persist(path)
        .map(|_: File| ())
        .map_err(|error| error.error)
}

/// Notes that a directory is used now: [`remove_unused`] of another build leaves it.
fn note_use(directory: &Path) {
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps {
        last_access: time(UTIME_OMIT),
        last_modification: time(UTIME_NOW),
    };
    let opened = File::open(directory);
    // An error: it may be removed a month after it was made.
    let _ = opened.map(|opened| futimens(opened, &times));
}

/// Removes the directories of other builds that were not used for [`UNUSED`].
fn remove_unused(base: &Path, own: &Path) {
    note_use(own);
    remove_old(base, PREFIX, UNUSED);
    remove_old(base, EARLIER_PREFIX, UNUSED);
}

/// Removes what begins with `prefix` in a directory and was not changed for this time.
fn remove_old(directory: &Path, prefix: &str, age: Duration) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let known = fs::symlink_metadata(&path);
        let changed = known.as_ref().ok().and_then(|known| known.modified().ok());
        let is_old = changed.is_some_and(|changed| changed.elapsed().is_ok_and(|old| old > age));
        if !name.starts_with(prefix) || !is_old {
            continue;
        }
        // An error: it stays, and takes some megabytes.
        let _ = match known.is_ok_and(|known| known.is_dir()) {
            true => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "libprofiler_observed.so";

    #[test]
    fn a_library_is_written_once() {
        let parent = tempfile::tempdir().unwrap();
        let base = parent.path().join("base");
        let first = place(&base, NAME.as_ref(), b"library").unwrap();
        assert_eq!(place(&base, NAME.as_ref(), b"library").unwrap(), first);
        assert_eq!(fs::read(first.join(NAME)).unwrap(), b"library");
        assert_ne!(place(&base, NAME.as_ref(), b"another").unwrap(), first);
    }

    #[test]
    fn a_changed_library_is_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let base = parent.path().join("base");
        let directory = place(&base, NAME.as_ref(), b"library").unwrap();
        let path = directory.join(NAME);
        fs::write(&path, b"broken").unwrap();
        place(&base, NAME.as_ref(), b"library").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"library");
    }

    fn make_old(path: &Path) {
        let old = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: old,
            last_modification: old,
        };
        futimens(File::open(path).unwrap(), &times).unwrap();
    }

    #[test]
    fn only_a_directory_that_no_command_uses_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let base = parent.path().join("base");
        let [unused, used] = [&b"unused"[..], b"used..."].map(|library| {
            let directory = place(&base, NAME.as_ref(), library).unwrap();
            make_old(&directory);
            directory
        });
        let part = used.join(format!("{PART}7"));
        fs::write(&part, b"lib").unwrap();
        make_old(&part);
        place(&base, NAME.as_ref(), b"used...").unwrap();
        place(&base, NAME.as_ref(), b"new").unwrap();
        assert!(used.exists() && !unused.exists());
        assert!(!part.exists(), "a part of a killed command");
    }

    #[test]
    fn the_loader_takes_only_plain_paths() {
        let usable = |path: &str| is_usable_by_loader(Path::new(path));
        assert!(usable("/usr/lib/libprofiler_observed.so"));
        for path in ["/a b/c.so", "/a:b/c.so", "/$LIB/c.so", "c.so"] {
            assert!(!usable(path), "{path}");
        }
    }
}
