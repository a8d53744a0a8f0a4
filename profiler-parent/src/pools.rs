//! Pools that survive the death of all processes, as files in a private directory of the session.
//!
//! Created for [`crate::SessionBuilder::pool_directory`]. Spawning a child adds its pool, the
//! supervisor removes the pools of dead processes whose data has expired, and [`crate::recover`]
//! reads the pools that are left. Invariants: the directory is new, accessible only to this user
//! (0700), and its name reveals nothing private; its files are created with `O_EXCL` and mode 0600
//! and are passed to children open, so a child opens no file; a session that ends in order removes
//! its directory, and no session touches the directory of another.
//!
//! ```text
//! DIRECTORY/                       given by the application, private to this user
//!   profiler-PID-RANDOM/           one per session
//!     parent.pool                  the session's own process
//!     child-POOLID.pool            one per child whose data is still kept
//! ```

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use profiler_core::ids::{PoolId, ProcessId};
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::sys;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// The name of the file of the parent's own pool.
pub(crate) const PARENT: &str = "parent.pool";
/// The prefix of the name of a session's directory.
pub(crate) const SESSION_PREFIX: &str = "profiler-";

/// The reason why pools cannot be kept in a directory.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep pools in {}: {why}", path.display())]
pub struct PoolDirectoryError {
    /// The requested directory.
    pub path: PathBuf,
    /// The problem with the directory.
    #[source]
    pub why: Unsuitable,
}

/// A problem that makes a directory unsuitable for pools.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsuitable {
    /// It belongs to another user, who could replace files in it.
    #[error("it belongs to user {0}")]
    NotOwn(u32),
    /// Other users may access it.
    #[error("other users may access it (mode {0:o}); the mode must be 700")]
    Open(u32),
    /// The system returned an error, for example because the path is a symbolic link.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for Unsuitable {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// The directory of one session.
#[derive(Debug)]
pub(crate) struct PoolDirectory {
    base: OwnedFd,
    name: String,
    directory: OwnedFd,
    path: PathBuf,
    /// The process that created the directory; a forked child must not remove it.
    maker: ProcessId,
}

impl PoolDirectory {
    /// Creates a directory in `base`, and `base` itself if it does not exist.
    ///
    /// # Errors
    /// [`PoolDirectoryError`]; `base` may have been created then.
    pub(crate) fn create(base: &Path) -> Result<Self, PoolDirectoryError> {
        Self::make_below(base).map_err(|why| PoolDirectoryError {
            path: base.to_owned(),
            why,
        })
    }

    fn make_below(path: &Path) -> Result<Self, Unsuitable> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let base = open_directory(CWD, path)?;
        check_private(&base)?;
        let maker = sys::process_id();
        let random = u64::try_from(pool::new_id()?.get() >> 64).unwrap_or(0);
        let name = format!("{SESSION_PREFIX}{maker}-{random:016x}");
        rustix::fs::mkdirat(&base, &name, Mode::RWXU)?;
        let directory = open_directory(&base, Path::new(&name))?;
        Ok(Self {
            path: path.join(&name),
            base,
            name,
            directory,
            maker,
        })
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates an empty file for the parent's own pool.
    pub(crate) fn parent_file(&self) -> io::Result<File> {
        self.new_file(PARENT)
    }

    /// Creates the pool of a child.
    pub(crate) fn make_pool(&self, spec: &PoolSpec) -> io::Result<File> {
        let file = self.new_file(&child_name(spec.id))?;
        match spec.create_pool_in(&file) {
            Ok(()) => Ok(file),
            Err(error) => {
                self.forget(spec.id);
                Err(error)
            }
        }
    }

    /// Removes the pool of a child. Processes that have it open keep it.
    pub(crate) fn forget(&self, key: PoolId) {
        let _ = rustix::fs::unlinkat(&self.directory, child_name(key), AtFlags::empty());
    }

    fn new_file(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Removes the pools, and the directory if it contains no other files.
    pub(crate) fn remove(&self) {
        if sys::process_id() != self.maker {
            return;
        }
        let names = rustix::fs::Dir::read_from(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        for entry in names.filter(|entry| entry.file_name().to_bytes().ends_with(b".pool")) {
            let _ = rustix::fs::unlinkat(&self.directory, entry.file_name(), AtFlags::empty());
        }
        let _ = rustix::fs::unlinkat(&self.base, self.name.as_str(), AtFlags::REMOVEDIR);
    }
}

impl Drop for PoolDirectory {
    fn drop(&mut self) {
        self.remove();
    }
}

fn child_name(key: PoolId) -> String {
    format!("child-{:032x}.pool", key.get())
}

fn open_directory(below: impl std::os::fd::AsFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(below, path, flags, Mode::empty())
}

fn check_private(directory: &OwnedFd) -> Result<(), Unsuitable> {
    let stat = rustix::fs::fstat(directory)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Unsuitable::NotOwn(stat.st_uid));
    }
    #[allow(clippy::useless_conversion)] // macOS and FreeBSD have a type of 16 bits
    let mode = u32::from(stat.st_mode) & 0o7777;
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(Unsuitable::Open(mode)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use test_support::assert_matches;

    use super::*;

    fn private() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
        directory
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let base = private();
        for mode in [0o701, 0o710, 0o750, 0o1777] {
            std::fs::set_permissions(base.path(), PermissionsExt::from_mode(mode)).unwrap();
            let refused = PoolDirectory::create(base.path()).unwrap_err();
            assert_matches!(refused.why, Unsuitable::Open(_), "{mode:o}: {refused}");
        }
        assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_symbolic_link_or_a_file_is_refused() {
        let base = private();
        let link = base.path().join("link");
        let file = base.path().join("file");
        symlink(base.path(), &link).unwrap();
        std::fs::write(&file, "").unwrap();
        for path in [link, file] {
            let refused = PoolDirectory::create(&path).unwrap_err();
            assert!(matches!(refused.why, Unsuitable::System(_)), "{refused}");
        }
    }

    #[test]
    fn pools_are_private_and_removed_at_the_end_but_other_files_are_kept() {
        let base = private();
        let new = base.path().join("new");
        let pools = PoolDirectory::create(&new).unwrap();
        pools.parent_file().unwrap();
        assert!(pools.parent_file().is_err(), "the file exists already");
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
        let modes = [&new, pools.path(), &pools.path().join(PARENT)].map(mode);
        assert_eq!(modes, [0o700, 0o700, 0o600]);
        let foreign = pools.path().join("profile.json");
        std::fs::write(&foreign, "").unwrap();
        drop(pools);
        assert!(foreign.exists());
        assert_eq!(
            std::fs::read_dir(foreign.parent().unwrap())
                .unwrap()
                .count(),
            1
        );
    }
}
