//! The directories that may contain the directory of a library: only this user and root can change them.
//!
//! Used for the directory from which programs load a library: a user who can write to it, or rename
//! a directory above it, can choose what the programs of a recording load. Root lets all users
//! read.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

/// The bits of the group and of others for writing.
const WRITABLE: u32 = 0o022;
/// In such a directory, only the owner of a file renames it.
const STICKY: u32 = 0o1000;
/// The bits of the group and of others for reading.
const READABLE: u32 = 0o055;

/// The directory for data of programs that root runs.
const CACHE_OF_ROOT: &str = "/var/cache";

/// The directories that may hold ours, the best first.
pub(super) fn bases() -> impl Iterator<Item = PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let chosen = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let user = rustix::process::geteuid();
    let of_root = (user.is_root() && chosen.is_none()).then(|| PathBuf::from(CACHE_OF_ROOT));
    let of_root = of_root.filter(|cache| cache.is_dir());
    let cache = chosen.or_else(|| Some(variable("HOME")?.join(".cache")));
    let caches = of_root.into_iter().chain(cache);
    let shared = std::env::temp_dir().join(format!("multiprocess-profiler-{}", user.as_raw()));
    let own = caches.map(|cache| cache.join("multiprocess-profiler"));
    own.chain([shared])
}

/// Whether programs may be run from the file system of this directory. The directory need not
/// exist.
pub(super) fn may_hold_programs(base: &Path) -> bool {
    let existing = base.ancestors().find(|path| path.exists());
    let system = existing.and_then(|path| rustix::fs::statvfs(path).ok());
    system.is_some_and(|system| !forbids_programs(system.f_flag))
}

#[cfg(target_os = "linux")]
fn forbids_programs(flags: StatVfsMountFlags) -> bool {
    flags.contains(StatVfsMountFlags::NOEXEC)
}

/// Other systems do not tell it in this way, and nothing is preloaded there.
#[cfg(not(target_os = "linux"))]
fn forbids_programs(_flags: StatVfsMountFlags) -> bool {
    false
}

/// Makes a directory for our directories, or checks the one that exists. Returns its path without
/// symbolic links. Makes nothing below a directory that another user can change.
pub(super) fn make_base(base: &Path) -> io::Result<PathBuf> {
    let existing = base.ancestors().find(|path| path.exists());
    let existing = fs::canonicalize(existing.unwrap_or(base))?;
    existing.ancestors().try_for_each(check)?;
    make_private(base)?;
    let base = fs::canonicalize(base)?;
    base.ancestors().skip(1).try_for_each(check)?;
    Ok(base)
}

/// Checks that a directory, which is named without symbolic links, belongs to this user or to the
/// system, and that no other user can rename what is in it.
fn check(directory: &Path) -> io::Result<()> {
    let known = fs::symlink_metadata(directory)?;
    // In a user namespace, root of the system may have another number.
    let system = fs::symlink_metadata("/")?.uid();
    let is_trusted = [own_user(), 0, system].contains(&known.uid());
    let mode = known.permissions().mode();
    if known.is_dir() && is_trusted && (mode & WRITABLE == 0 || mode & STICKY != 0) {
        Ok(())
    } else {
        let why = format!("other users can change {}", directory.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }
}

/// Makes a directory, or checks the one that exists: it belongs to this user, and no other user can
/// write to it.
pub(super) fn make_private(directory: &Path) -> io::Result<()> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    let known = fs::symlink_metadata(directory).or_else(|error| made.and(Err(error)))?;
    let mode = known.permissions().mode();
    if !known.is_dir() || known.uid() != own_user() || mode & WRITABLE != 0 {
        let why = "it is not a private directory of this user";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    if own_user() == 0 && mode & READABLE != READABLE {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn nothing_is_made_below_a_directory_that_others_can_change() {
        let parent = tempfile::tempdir().unwrap();
        set_mode(parent.path(), 0o777);
        let base = parent.path().join("caches/base");
        let refused = make_base(&base).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(!parent.path().join("caches").exists());
        set_mode(parent.path(), 0o1777);
        make_base(&base).unwrap();
    }

    #[test]
    fn nothing_is_made_below_a_directory_of_another_user() {
        let parent = tempfile::tempdir().unwrap();
        if std::os::unix::fs::chown(parent.path(), Some(65534), None).is_err() {
            return; // only root can make one
        }
        let refused = make_base(&parent.path().join("base")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(!parent.path().join("base").exists());
    }

    #[test]
    fn a_symbolic_link_does_not_hide_such_a_directory() {
        let [open, own] = [0o777, 0o700].map(|mode| {
            let directory = tempfile::tempdir().unwrap();
            set_mode(directory.path(), mode);
            directory
        });
        let link = own.path().join("cache");
        std::os::unix::fs::symlink(open.path(), &link).unwrap();
        make_base(&link.join("base")).unwrap_err();
    }

    #[test]
    fn a_directory_that_others_can_change_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let base = make_base(&parent.path().join("base")).unwrap();
        let is_readable = fs::metadata(&base).unwrap().mode() & READABLE == READABLE;
        assert_eq!(is_readable, own_user() == 0);
        set_mode(&base, 0o777);
        make_base(&base).unwrap_err();
        make_private(&base).unwrap_err();
    }
}
