//! The directory from which programs load the agent.
//!
//! ```text
//! ~/.cache/multiprocess-profiler/agent-0123456789abcdef/
//!     libprofiler_agent.so
//!     lib/  lib64/  lib/x86_64-linux-gnu/      each with a link to it
//!     forks/1/  forks/2/  forks/3/             each with a copy
//! ```
//!
//! A forked child that executes no other program loads a copy: the loader takes a file once per
//! process, and the child needs new statics.
//!
//! The loader of the GNU C library is told the path `…/$LIB/libprofiler_agent.so`, where it
//! replaces `$LIB` by the name of its own directory for libraries. The loader of musl replaces
//! nothing, finds no such file and goes on without a message, and the loader of a 32-bit program on
//! Debian looks into another directory: so a program of another C library does not try to load the
//! agent, which it could not.
//!
//! The number in the name is a hash of the library. The directory stays after the recording,
//! because programs that outlive it still look for the library when they start other programs.
//! Directories of other builds are removed after a month. Invariants: the directory belongs to this
//! user and only this user can write to it; the file has exactly the expected bytes; it appears
//! under its name only when it is complete.

use std::fs::{self, DirBuilder, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{AgentError, FILE_NAME};

/// The part of the path that the loader replaces.
const LIB: &str = "$LIB";
/// What `$LIB` stands for on the usual distributions.
const DIRECTORIES: [&str; 3] = ["lib", "lib64", MULTIARCH];
#[cfg(target_arch = "aarch64")]
const MULTIARCH: &str = "lib/aarch64-linux-gnu";
#[cfg(not(target_arch = "aarch64"))]
const MULTIARCH: &str = "lib/x86_64-linux-gnu";

/// The directories of the copies for forked children, their children, and so on.
const COPIES: [&str; 3] = ["forks/1", "forks/2", "forks/3"];

/// When a directory of another build is removed.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Writes the library, unless it is there, and returns the path for the loader.
///
/// # Errors
/// [`AgentError::NotBuilt`], [`AgentError::NotWritten`].
pub(super) fn path_for_loader(library: &[u8]) -> Result<PathBuf, AgentError> {
    if library.is_empty() {
        return Err(AgentError::NotBuilt);
    }
    let mut refused = None;
    for base in bases().filter(|base| is_usable_by_loader(base) && may_hold_programs(base)) {
        match place(&base, library) {
            Ok(directory) => return Ok(directory.join(LIB).join(FILE_NAME)),
            Err(source) => refused = Some((base, source)),
        }
    }
    let (path, source) = refused.unwrap_or_else(|| {
        let error = io::Error::other("there is no directory for programs");
        (std::env::temp_dir(), error)
    });
    Err(AgentError::NotWritten { path, source })
}

/// Whether the loader takes this path as it is. It knows `$LIB` as the name of a directory.
pub(super) fn is_usable_by_loader(path: &Path) -> bool {
    let path = path.to_string_lossy();
    let rest = path.replacen(&format!("/{LIB}/"), "/", 1);
    rest.starts_with('/') && !rest.contains([' ', '\t', '\n', ':', '$', '%'])
}

/// The directories that may hold ours, the best first.
fn bases() -> impl Iterator<Item = PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(variable("HOME")?.join(".cache")));
    let cache = cache.map(|cache| cache.join("multiprocess-profiler"));
    let user = rustix::process::geteuid().as_raw();
    let shared = std::env::temp_dir().join(format!("multiprocess-profiler-{user}"));
    cache.into_iter().chain([shared])
}

/// Whether programs may be run from the file system of this directory. The directory need not
/// exist.
fn may_hold_programs(base: &Path) -> bool {
    let existing = base.ancestors().find(|path| path.exists());
    let system = existing.and_then(|path| rustix::fs::statvfs(path).ok());
    system.is_some_and(|system| {
        !system
            .f_flag
            .contains(rustix::fs::StatVfsMountFlags::NOEXEC)
    })
}

/// Writes the library into a directory below `base`.
fn place(base: &Path, library: &[u8]) -> io::Result<PathBuf> {
    let directory = base.join(format!("agent-{:016x}", hash(library)));
    make_private(base)?;
    make_private(&directory)?;
    let file = directory.join(FILE_NAME);
    for copy in COPIES {
        write(&directory.join(copy), library)?;
    }
    if write(&directory, library)? {
        remove_unused(base, &directory);
    }
    for name in DIRECTORIES {
        link_from(&directory.join(name), &file)?;
    }
    Ok(directory)
}

/// Writes the library into a directory, unless it is there. Returns whether it has.
fn write(directory: &Path, library: &[u8]) -> io::Result<bool> {
    make_private(directory)?;
    let is_there = fs::read(directory.join(FILE_NAME)).is_ok_and(|found| found == library);
    if !is_there {
        write_whole(directory, library)?;
    }
    Ok(!is_there)
}

fn hash(library: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(library);
    hasher.finish()
}

/// Makes a directory, or checks the one that exists: it belongs to this user, and nobody else can
/// write to it.
fn make_private(directory: &Path) -> io::Result<()> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    let known = fs::symlink_metadata(directory).or_else(|error| made.and(Err(error)))?;
    let is_ours = known.uid() == rustix::process::geteuid().as_raw();
    let is_private = known.permissions().mode() & 0o022 == 0;
    if known.is_dir() && is_ours && is_private {
        Ok(())
    } else {
        let why = "it is not a private directory of this user";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// Writes the library under another name, then renames it. Several commands may do so at once.
fn write_whole(directory: &Path, library: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(library)?;
    let permissions = fs::Permissions::from_mode(0o755);
    file.as_file().set_permissions(permissions)?;
    file.persist(directory.join(FILE_NAME))
        .map(|_: File| ())
        .map_err(|error| error.error)
}

/// Makes a link to the library in a directory, unless there is one.
fn link_from(directory: &Path, library: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    match symlink(library, directory.join(FILE_NAME)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

/// Removes the directories of other builds that are older than [`UNUSED`].
fn remove_unused(base: &Path, own: &Path) {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    let is_unused = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let changed = fs::symlink_metadata(path).and_then(|known| known.modified());
        let age = changed.map(|changed| changed.elapsed().unwrap_or_default());
        path != own && name.starts_with("agent-") && age.is_ok_and(|age| age > UNUSED)
    };
    for path in entries.map(|entry| entry.path()).filter(is_unused) {
        let _ = fs::remove_dir_all(path); // an error: it stays, and takes some megabytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_written_once_and_found_through_each_link() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let first = place(base.path(), b"library").unwrap();
        assert_eq!(place(base.path(), b"library").unwrap(), first);
        for name in DIRECTORIES {
            let found = fs::read(first.join(name).join(FILE_NAME)).unwrap();
            assert_eq!(found, b"library");
        }
        assert_ne!(place(base.path(), b"another").unwrap(), first);
    }

    #[test]
    fn a_changed_library_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let directory = place(base.path(), b"library").unwrap();
        fs::write(directory.join(FILE_NAME), b"broken").unwrap();
        place(base.path(), b"library").unwrap();
        assert_eq!(fs::read(directory.join(FILE_NAME)).unwrap(), b"library");
    }

    #[test]
    fn a_directory_that_others_can_change_is_not_used() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = place(base.path(), b"library").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_command_without_the_library_says_so() {
        assert!(matches!(path_for_loader(&[]), Err(AgentError::NotBuilt)));
    }

    #[test]
    fn the_loader_takes_only_plain_paths() {
        let usable = |path: &str| is_usable_by_loader(Path::new(path));
        assert!(usable("/home/me/.cache/$LIB/libprofiler_agent.so"));
        assert!(usable("/usr/lib/libprofiler_agent.so"));
        for path in [
            "/a b/c.so",
            "/a:b/c.so",
            "/$X/c.so",
            "/$LIB/$LIB/c.so",
            "c.so",
        ] {
            assert!(!usable(path), "{path}");
        }
    }
}
