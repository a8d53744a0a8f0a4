//! Reserves a directory for one pusher.
//!
//! Used for the directories of a spool and for temporary spools. The lock is one of `fcntl`, which
//! forked children do not inherit: they may outlive the pusher. Such a lock does not exclude its
//! own process, and ends when the process closes the file anywhere, so a process also puts a mark
//! into a directory that it uses, and does not open the lock of a directory that has its mark.
//!
//! Invariants: no file is opened through a symbolic link; a descriptor that the program has closed
//! is neither used nor closed; a forked child changes nothing.

use std::collections::hash_map::RandomState;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use profiler_core::ids::ProcessId;
use profiler_core::internal::sys::{self, OwnFile, above_streams};
use rustix::fs::{FlockOperation, fcntl_lock};

/// The name of the file that a living pusher has locked.
const LOCK: &str = "lock";
/// What the name of the mark of a process begins with.
const OWNER: &str = "owner-";

/// The reservation of a directory. It ends when it is dropped, or when the process dies.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    directory: PathBuf,
    /// Locked as long as it is open. `None` when it was released.
    file: Mutex<Option<OwnFile>>,
    /// Removed after the file is closed.
    mark: OwnerMark,
}

impl DirectoryLock {
    /// Reserves a directory. `None` if this process already uses it.
    ///
    /// # Errors
    /// Another process uses it or has removed it; it belongs to another user.
    pub(super) fn take(directory: &Path) -> io::Result<Option<Self>> {
        let Some(mark) = OwnerMark::set(directory)? else {
            return Ok(None);
        };
        let file = locked_file(directory).inspect_err(|_| mark.remove())?;
        mark.remove_others(directory);
        Ok(Some(Self {
            directory: directory.to_owned(),
            file: Mutex::new(Some(file)),
            mark,
        }))
    }

    /// Locks the directory again: the program may have closed the descriptor, or another one of the
    /// same file, which ends the lock. Without an effect if the directory is locked.
    ///
    /// # Errors
    /// Another process has taken over the directory meanwhile, or the lock was released.
    pub(super) fn renew(&self) -> io::Result<()> {
        let mut file = self.lock();
        match file.as_ref().ok_or(io::ErrorKind::NotConnected)?.get() {
            Ok(open) => lock_file(open, &self.directory.join(LOCK))?,
            Err(_) => *file = Some(locked_file(&self.directory)?),
        }
        self.mark.restore()
    }

    fn lock(&self) -> MutexGuard<'_, Option<OwnFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process has taken it and not released it. A forked child has its parent's
    /// value.
    pub(super) fn is_held(&self) -> bool {
        self.mark.maker == sys::process_id() && self.lock().is_some()
    }

    /// Ends the reservation, as dropping it does.
    pub(super) fn release(&self) {
        if self.is_held() {
            drop(self.lock().take());
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
        self.lock().as_ref().unwrap().number().unwrap()
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

    /// Marks the directory again, if another process has removed the mark.
    fn restore(&self) -> io::Result<()> {
        match create_new(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
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
    fcntl_lock(file, FlockOperation::NonBlockingLockExclusive)?;
    let (locked, present) = (file.metadata()?, fs::symlink_metadata(path)?);
    if (locked.dev(), locked.ino()) != (present.dev(), present.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

    use test_support::own_process;

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
        fs::remove_file(&lock.mark.path).unwrap(); // as another process that takes over
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
        assert!(is_locked());
        drop(File::open(&path).unwrap());
        assert!(!is_locked(), "a lock of fcntl");
        lock.renew().unwrap();
        assert!(is_locked());
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
