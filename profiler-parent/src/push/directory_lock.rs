//! Reserves a directory for one pusher.
//!
//! Used for the directories of a spool and for temporary spools. The lock is one of `fcntl`, which
//! forked children do not inherit: they may outlive the pusher. Such a lock does not exclude its
//! own process, and ends when the process closes the file anywhere, so a process also puts a mark
//! into a directory that it uses, and does not open the lock of a directory that has its mark.
//!
//! A pusher that takes a directory over removes the marks of others. So a process whose mark is
//! missing has lost the directory, even if it could lock it again.
//!
//! Invariants: no file is opened through a symbolic link; a descriptor that the program has closed
//! is neither used nor closed; a forked child changes nothing; a lost directory stays lost.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler_core::ids::ProcessId;
use profiler_core::internal::sys;
use profiler_sys::{OwnFile, above_streams};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;

/// The name of the file that a living pusher has locked.
pub(super) const LOCK: &str = "lock";
/// What the name of the mark of a process begins with.
const OWNER: &str = "owner-";

/// Why a directory is not locked.
#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    /// Another pusher uses the directory or has used it meanwhile, or the directory was removed.
    #[error("it belongs to another pusher, or was removed")]
    Lost,
    /// The system cannot tell or lock it at present, for example because it has no descriptor left.
    #[error("it cannot be locked: {0}")]
    Failed(#[source] io::Error),
    /// It was released.
    #[error("it was released")]
    Released,
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::AGAIN | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Self::Lost,
            _ => Self::Failed(error),
        }
    }
}

impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Failed(error) => error,
            other => Self::other(other),
        }
    }
}

/// The file of a lock.
#[derive(Debug)]
enum LockFile {
    /// Locked as long as it is open.
    Open(OwnFile),
    Released,
    Lost,
}

/// The reservation of a directory. It ends when it is dropped, or when the process dies.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    directory: PathBuf,
    file: Mutex<LockFile>,
    /// Removed after the file is closed.
    mark: OwnerMark,
}

impl DirectoryLock {
    /// Reserves a directory. `None` if this process already uses it.
    ///
    /// # Errors
    /// [`LockError::Lost`] if another process uses it or has removed it. [`LockError::Failed`]
    /// otherwise, also if it belongs to another user.
    pub(super) fn take(directory: &Path) -> Result<Option<Self>, LockError> {
        let Some(mark) = OwnerMark::set(directory)? else {
            return Ok(None);
        };
        let file = locked_file(directory).inspect_err(|_| mark.remove())?;
        mark.remove_others(directory);
        Ok(Some(Self {
            directory: directory.to_owned(),
            file: Mutex::new(LockFile::Open(file)),
            mark,
        }))
    }

    /// Locks the directory again: the program may have closed the descriptor, or another one of the
    /// same file, which ends the lock. Without an effect if the directory is locked.
    ///
    /// # Errors
    /// [`LockError::Lost`] if another process has taken over the directory meanwhile, from then on;
    /// [`LockError::Released`]; [`LockError::Failed`].
    pub(super) fn renew(&self) -> Result<(), LockError> {
        let mut file = self.lock();
        let renewed = self.renew_file(&mut file);
        if matches!(renewed, Err(LockError::Lost)) {
            *file = LockFile::Lost;
        }
        renewed
    }

    fn renew_file(&self, file: &mut LockFile) -> Result<(), LockError> {
        let open = match file {
            LockFile::Open(open) => open.get(),
            LockFile::Released => return Err(LockError::Released),
            LockFile::Lost => return Err(LockError::Lost),
        };
        match open {
            Ok(open) => lock_file(open, &self.directory.join(LOCK))?,
            Err(_) => *file = LockFile::Open(locked_file(&self.directory)?),
        }
        // Needs no descriptor.
        fs::symlink_metadata(&self.mark.path)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, LockFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process has taken it, and has neither lost nor released it. A forked child has
    /// its parent's value.
    pub(super) fn is_held(&self) -> bool {
        self.mark.maker == sys::process_id() && matches!(*self.lock(), LockFile::Open(_))
    }

    /// Ends the reservation, as dropping it does.
    pub(super) fn release(&self) {
        if self.is_held() {
            *self.lock() = LockFile::Released; // closes the file
            self.mark.remove();
        }
    }

    /// As in a forked child.
    #[cfg(test)]
    pub(super) fn pretend_another_process(&mut self) {
        self.mark.maker = ProcessId::new(0);
    }

    /// The file of the lock, for tests that close it.
    #[cfg(test)]
    pub(super) fn number(&self) -> std::os::fd::RawFd {
        let LockFile::Open(file) = &*self.lock() else {
            panic!("not locked")
        };
        file.number().unwrap()
    }
}

/// The file with which a process marks a directory that it uses.
#[derive(Debug)]
struct OwnerMark {
    path: PathBuf,
    maker: ProcessId,
}

impl OwnerMark {
    /// Marks a directory. `None` if this process already uses it.
    fn set(directory: &Path) -> io::Result<Option<Self>> {
        let mark = Self {
            path: directory.join(format!("{OWNER}{}", process_mark())),
            maker: sys::process_id(),
        };
        match create_new(&mark.path) {
            Ok(()) => Ok(Some(mark)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the marks of dead processes. Called with the directory locked. One that cannot be
    /// removed does no harm.
    fn remove_others(&self, directory: &Path) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let is_mark = entry.file_name().to_string_lossy().starts_with(OWNER);
            if is_mark && entry.path() != self.path {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

impl OwnerMark {
    /// Removes the mark. The directory may have been removed.
    fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        self.release();
    }
}

fn create_new(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map(|_| ())
}

/// A text that differs between processes, also after a fork and after an exec.
fn process_mark() -> String {
    static RANDOM: AtomicU64 = AtomicU64::new(0);
    let new = RandomState::new().build_hasher().finish() | 1;
    // Relaxed: nothing else depends on the number.
    let number = match RANDOM.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(earlier) => earlier,
    };
    format!("{}-{number:016x}", std::process::id())
}

/// Opens the lock file of a directory, and locks it for this process. Fails if another process has
/// locked it, or has removed the directory.
fn locked_file(directory: &Path) -> io::Result<OwnFile> {
    let path = directory.join(LOCK);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW).open(&path)?;
    // Before the lock, which ends when any descriptor of the file is closed.
    let file = File::from(above_streams(file.into())?);
    lock_file(&file, &path)?;
    Ok(file.into())
}

/// Locks an open file for this process. Fails if another process has locked it, or if it is no
/// longer at `path`.
fn lock_file(file: &File, path: &Path) -> io::Result<()> {
    let locked = fcntl_lock(file, FlockOperation::NonBlockingLockExclusive);
    // POSIX has two errors for a lock of another process.
    locked.map_err(|error| match error {
        Errno::ACCESS => Errno::AGAIN,
        other => other,
    })?;
    let (locked, present) = (file.metadata()?, fs::symlink_metadata(path)?);
    if (locked.dev(), locked.ino()) != (present.dev(), present.ino()) {
        return Err(Errno::NOENT.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use test_support::own_process;
    use test_support::patience::until;

    use super::*;

    fn take(directory: &Path) -> DirectoryLock {
        DirectoryLock::take(directory).unwrap().unwrap()
    }

    #[allow(unsafe_code)]
    fn close(number: RawFd) {
        // SAFETY: the descriptor is open, and the lock does not use it without a check.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    #[test]
    fn a_lock_that_the_program_has_closed_is_taken_again_and_its_number_is_left_alone() {
        own_process!(); // no other thread may get the number
        let directory = tempfile::tempdir().unwrap();
        let lock = take(directory.path());
        let number = lock.number();
        close(number);
        let mut database = File::create(directory.path().join("database")).unwrap();
        assert_eq!(database.as_raw_fd(), number, "the lowest free number");
        lock.renew().unwrap();
        assert_ne!(lock.number(), number);
        assert!(DirectoryLock::take(directory.path()).unwrap().is_none());
        drop(lock);
        database.write_all(b"data").unwrap();
        assert_eq!(
            fs::read(directory.path().join("database")).unwrap(),
            b"data"
        );
    }

    #[test]
    fn a_lock_that_ends_with_another_descriptor_of_its_file_is_taken_again() {
        let directory = tempfile::tempdir().unwrap();
        let lock = take(directory.path());
        let path = directory.path().join(LOCK);
        let is_locked = || {
            let inode = format!(":{} ", fs::metadata(&path).unwrap().ino());
            fs::read_to_string("/proc/locks").unwrap().contains(&inode)
        };
        // The list may lack a lock if an earlier one ends while it is read.
        assert!(until(is_locked));
        drop(File::open(&path).unwrap());
        assert!(!is_locked(), "a lock of fcntl");
        lock.renew().unwrap();
        assert!(until(is_locked));
    }

    #[test]
    fn a_directory_that_another_pusher_has_used_meanwhile_is_lost_for_good() {
        let directory = tempfile::tempdir().unwrap();
        let lock = take(directory.path());
        fs::remove_file(&lock.mark.path).unwrap(); // as another process that takes over
        assert!(matches!(lock.renew(), Err(LockError::Lost)));
        create_new(&lock.mark.path).unwrap();
        assert!(matches!(lock.renew(), Err(LockError::Lost)));
        assert!(!lock.is_held());
    }

    #[test]
    fn a_directory_is_not_lost_for_lack_of_descriptors() {
        own_process!(); // the limit is that of the process
        let directory = tempfile::tempdir().unwrap();
        let [kept, closed] = ["kept", "closed"].map(|name| {
            let path = directory.path().join(name);
            fs::create_dir(&path).unwrap();
            take(&path)
        });
        close(closed.number());
        let limit = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(0),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, none).unwrap();
        let renewed = [&kept, &closed].map(DirectoryLock::renew);
        let new = DirectoryLock::take(directory.path());
        setrlimit(Resource::Nofile, limit).unwrap();
        let [kept_on, failed] = renewed;
        kept_on.unwrap();
        assert!(matches!(failed, Err(LockError::Failed(_))), "{failed:?}");
        assert!(matches!(new, Err(LockError::Failed(_))), "{new:?}");
        closed.renew().unwrap();
    }

    #[test]
    fn a_forked_child_leaves_the_mark_of_its_parent() {
        let directory = tempfile::tempdir().unwrap();
        let mut lock = take(directory.path());
        lock.pretend_another_process();
        let mark = lock.mark.path.clone();
        drop(lock);
        assert!(mark.exists());
    }

    #[test]
    fn a_lock_is_not_opened_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        std::os::unix::fs::symlink(&target, directory.path().join(LOCK)).unwrap();
        assert!(DirectoryLock::take(directory.path()).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn a_mark_that_cannot_be_removed_does_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("owner-x")).unwrap();
        take(directory.path());
    }
}
