//! Reserves a directory for one pusher.
//!
//! Used for the directories of a spool. The owner of a directory has a file in it, and has locked
//! the file. The lock is one of `fcntl`, which forked children do not inherit: they may outlive the
//! pusher. Such a lock does not exclude its own process, and ends when the process closes the file
//! anywhere, so the name of the file contains the mark of the process, and a process does not open
//! a file with its own mark.
//!
//! A pusher that takes a directory over moves it, and removes the files of earlier owners. So a
//! process whose file is missing has lost the directory, even if the directory is there.
//!
//! Invariants: no file is opened through a symbolic link; a descriptor that the program has closed
//! is neither used nor closed; a forked child changes nothing; a lost directory stays lost.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirEntry, File, OpenOptions};
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

/// What the name of the file of an owner begins with.
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
            lost => Self::other(lost),
        }
    }
}

/// The reservation of a directory. It ends when it is dropped, or when the process dies.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    path: PathBuf,
    /// Locked as long as it is open. `None` once the directory is lost or released.
    file: Mutex<Option<OwnFile>>,
    maker: ProcessId,
}

impl DirectoryLock {
    /// Reserves a new directory.
    ///
    /// # Errors
    /// [`LockError::Lost`] if another process has removed or taken it meanwhile.
    pub(super) fn of_new(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(format!("{OWNER}{}", process_mark()));
        let mut options = OpenOptions::new();
        let file = opened(options.create_new(true).mode(0o600), &path)?;
        lock_file(&file, &path).inspect_err(|_| _ = fs::remove_file(&path))?;
        Ok(Self {
            path,
            file: Mutex::new(Some(file.into())),
            maker: sys::process_id(),
        })
    }

    /// Locks the directory again: the program may have closed the descriptor, or another one of the
    /// same file, which ends the lock. Without an effect if the directory is locked.
    ///
    /// # Errors
    /// [`LockError::Lost`] if another process has taken over the directory meanwhile, from then on,
    /// or if it was released; [`LockError::Failed`].
    pub(super) fn renew(&self) -> Result<(), LockError> {
        let mut file = self.lock();
        let renewed = self.renew_file(&mut file);
        if matches!(renewed, Err(LockError::Lost)) {
            *file = None;
        }
        renewed
    }

    fn renew_file(&self, file: &mut Option<OwnFile>) -> Result<(), LockError> {
        if let Ok(open) = file.as_ref().ok_or(LockError::Lost)?.get() {
            return Ok(lock_file(open, &self.path)?);
        }
        let new = opened(&mut OpenOptions::new(), &self.path)?;
        lock_file(&new, &self.path)?;
        *file = Some(new.into());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process has taken it, and has neither lost nor released it. A forked child has
    /// its parent's value.
    pub(super) fn is_held(&self) -> bool {
        self.maker == sys::process_id() && self.lock().is_some()
    }

    /// Ends the reservation, as dropping it does. The directory may have been removed.
    pub(super) fn release(&self) {
        if self.is_held() {
            *self.lock() = None; // closes the file
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        self.release();
    }
}

/// Whether a living pusher uses a directory.
///
/// # Errors
/// The system cannot tell at present.
pub(super) fn is_in_use(directory: &Path) -> io::Result<bool> {
    let own = format!("{OWNER}{}", process_mark());
    for owner in owners(directory)? {
        if owner.file_name() == *own {
            return Ok(true);
        }
        let path = owner.path();
        let locked = opened(&mut OpenOptions::new(), &path).and_then(|it| lock_file(&it, &path));
        match locked.map_err(|error| (Errno::from_io_error(&error), error)) {
            Ok(()) | Err((Some(Errno::NOENT), _)) => {} // its process is dead, or has just ended
            Err((Some(Errno::AGAIN), _)) => return Ok(true),
            Err((_, error)) => return Err(error),
        }
    }
    Ok(false)
}

/// Removes the files of earlier owners from a directory that was moved. One that cannot be removed
/// does no harm.
pub(super) fn remove_owners(directory: &Path) {
    for owner in owners(directory).unwrap_or_default() {
        let _ = fs::remove_file(owner.path());
    }
}

/// Whether a file of this name shows that its directory has an owner.
pub(super) fn is_owner(name: &str) -> bool {
    name.starts_with(OWNER)
}

/// The files of owners in a directory, without links and directories.
fn owners(directory: &Path) -> io::Result<Vec<DirEntry>> {
    let mut owners = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if is_owner(&entry.file_name().to_string_lossy()) && entry.file_type()?.is_file() {
            owners.push(entry);
        }
    }
    Ok(owners)
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

/// Opens the file of an owner.
fn opened(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let options = options.write(true).custom_flags(libc::O_NOFOLLOW);
    // Before the lock, which ends when any descriptor of the file is closed.
    Ok(File::from(above_streams(options.open(path)?.into())?))
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
        DirectoryLock::of_new(directory).unwrap()
    }

    /// The number of the file of a lock.
    fn number(lock: &DirectoryLock) -> RawFd {
        lock.lock().as_ref().unwrap().number().unwrap()
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
        let number = number(&lock);
        close(number);
        let mut database = File::create(directory.path().join("database")).unwrap();
        assert_eq!(database.as_raw_fd(), number, "the lowest free number");
        lock.renew().unwrap();
        assert_ne!(self::number(&lock), number);
        assert!(is_in_use(directory.path()).unwrap());
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
        let path = lock.path.clone();
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
        remove_owners(directory.path()); // as another process that takes over
        assert!(matches!(lock.renew(), Err(LockError::Lost)));
        fs::write(&lock.path, "").unwrap();
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
        close(number(&closed));
        let limit = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(0),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, none).unwrap();
        let renewed = [&kept, &closed].map(DirectoryLock::renew);
        let new = DirectoryLock::of_new(directory.path());
        let unknown = is_in_use(directory.path());
        setrlimit(Resource::Nofile, limit).unwrap();
        let [kept_on, failed] = renewed;
        kept_on.unwrap();
        assert!(matches!(failed, Err(LockError::Failed(_))), "{failed:?}");
        assert!(matches!(new, Err(LockError::Failed(_))), "{new:?}");
        assert!(unknown.is_err(), "not unused");
        closed.renew().unwrap();
    }

    #[test]
    fn a_forked_child_leaves_the_mark_of_its_parent() {
        let directory = tempfile::tempdir().unwrap();
        let mut lock = take(directory.path());
        lock.maker = ProcessId::new(0);
        let path = lock.path.clone();
        drop(lock);
        assert!(path.exists());
    }

    #[test]
    fn the_file_of_a_dead_owner_a_link_and_a_directory_do_no_harm() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("owner-1-0"), "").unwrap();
        fs::create_dir(path("owner-2-0")).unwrap();
        std::os::unix::fs::symlink(path("target"), path("owner-3-0")).unwrap();
        assert!(!is_in_use(directory.path()).unwrap());
        let lock = take(directory.path());
        assert!(is_in_use(directory.path()).unwrap());
        drop(lock);
        remove_owners(directory.path());
        assert!(!path("owner-1-0").exists() && !path("target").exists());
        assert!(path("owner-2-0").exists());
    }

    #[test]
    fn a_lock_is_not_opened_through_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let lock = take(directory.path());
        let target = directory.path().join("target");
        close(number(&lock));
        fs::rename(&lock.path, &target).unwrap();
        std::os::unix::fs::symlink(&target, &lock.path).unwrap();
        assert!(matches!(lock.renew(), Err(LockError::Lost)));
    }
}
