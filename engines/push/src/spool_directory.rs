//! One directory of a spool: the batches of one pusher, and how far each destination has got.
//!
//! Used by the spool. A pusher makes a directory of its own and locks it (`directory_lock`). If its
//! process dies, the next pusher moves the directory into its own one (`dead_directories`), so one
//! lock is enough for all batches of a pusher. When the pusher ends, it moves what waits back.
//!
//! ```text
//! SPOOL/3f…a0/owner-4711-9c…41                 locked while its pusher lives
//!            /state                            the service, its version and the host of the batches,
//!                                              the addresses of the destinations, and that one has
//!                                              batches up to 6, and 3 bodies of 7
//!            /0000000007-5120.json.gz          batch 7 with 5120 entries
//!            /81…5c/state                      a directory that it has taken over
//!                  /0000000002-640.json.gz
//! ```
//!
//! Invariants: only this user can read it; a directory of another user is left alone; no file is
//! opened through a symbolic link; a batch appears under its name when it is complete.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::PushIdentity;
use super::batch::{BatchId, SeriesId};
use super::directory_lock::{DirectoryLock, LockError, is_owner, remove_owners};
use super::spool_access::is_own;
use super::spool_state::{BatchProgress, STATE, SpoolState};

/// The most directories that are made until one can be locked.
const MAX_ATTEMPTS: u32 = 8;
/// What the names of batches end with.
const BATCH_END: &str = ".json.gz";
/// The name of a batch that is being written, before [`BATCH_END`].
const UNFINISHED: &str = "next";

/// A directory with the batches of one pusher.
#[derive(Debug)]
pub(super) struct SpoolDirectory {
    pub(super) series: SeriesId,
    pub(super) path: PathBuf,
    /// That of the pusher that made it; `None` if it cannot be read.
    pub(super) identity: Option<PushIdentity>,
    /// That of the pusher's own directory, also for one that it has taken over.
    lock: Arc<DirectoryLock>,
    state: Mutex<SpoolState>,
}

/// A batch in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredBatch {
    pub(super) id: BatchId,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

impl SpoolDirectory {
    /// Makes a directory in `spool`, for the batches of a pusher with this identity.
    pub(super) fn create(
        spool: &Path,
        addresses: &[String],
        identity: &PushIdentity,
    ) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let series = SeriesId::new()?;
            let path = spool.join(series.to_string());
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&path)?;
            // Until it is locked, another pusher may take it for one that was left behind.
            let lock = match DirectoryLock::of_new(&path) {
                Ok(lock) => Arc::new(lock),
                Err(LockError::Failed(error)) => {
                    remove_new(&path);
                    return Err(error);
                }
                Err(LockError::Lost) => continue,
            };
            let state = SpoolState::new(identity.clone(), addresses.to_vec());
            let stored = state.create(&path);
            let home = Self::of(series, path, Some(state), lock);
            match stored {
                Ok(()) => return Ok(home),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    home.remove_new();
                    return Err(error);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Moves the directory of a dead pusher into this one.
    ///
    /// # Errors
    /// It was moved by another pusher, or cannot be read at present. It then stays where it is.
    pub(super) fn move_in(&self, series: SeriesId, path: &Path) -> io::Result<Self> {
        let to = self.path.join(series.to_string());
        fs::rename(path, &to)?;
        remove_owners(&to);
        // Only now: another pusher may have used it until then.
        let state = SpoolState::read(&to);
        let readable = state.and_then(|state| batches_in(&series, &to).map(|_| state));
        let state = readable.inspect_err(|_| _ = fs::rename(&to, path))?;
        Ok(Self::of(series, to, state, Arc::clone(&self.lock)))
    }

    fn of(
        series: SeriesId,
        path: PathBuf,
        state: Option<SpoolState>,
        lock: Arc<DirectoryLock>,
    ) -> Self {
        Self {
            series,
            path,
            identity: state.as_ref().and_then(|state| state.identity.clone()),
            lock,
            state: Mutex::new(state.unwrap_or_default()),
        }
    }

    /// Makes sure that no other pusher takes over the directory, although the program may have
    /// closed all descriptors.
    ///
    /// # Errors
    /// [`LockError::Lost`] if another one has taken it over, and sends its batches.
    pub(super) fn keep_locked(&self) -> Result<(), LockError> {
        self.lock.renew()
    }

    /// Whether this process has locked it: a forked child has its parent's value.
    fn is_locked(&self) -> bool {
        self.lock.is_held() && self.lock.renew().is_ok()
    }

    /// Removes it if it has neither a batch nor another directory. Returns whether it is removed.
    /// What cannot be removed of it is removed by the next pusher.
    pub(super) fn remove_empty(&self) -> bool {
        let Ok(remnants) = remnants(&self.path) else {
            return false;
        };
        for remnant in remnants {
            let _ = fs::remove_file(remnant);
        }
        // The system checks that nothing is in it.
        let _ = fs::remove_dir(&self.path);
        true
    }

    /// Leaves it to the next pusher, in `spool`, or removes it if it has no batch. Does nothing if
    /// another pusher has taken it over, or in a forked child.
    pub(super) fn give_back(&self, spool: &Path) {
        if self.is_locked() && !self.remove_empty() {
            let _ = fs::rename(&self.path, spool.join(self.series.to_string()));
        }
    }

    /// Removes a pusher's own directory if nothing is in it, and lets another pusher take it over
    /// otherwise. Called after those that it has taken over are given back.
    pub(super) fn release(&self) {
        if self.is_locked() {
            self.remove_empty();
        }
        self.lock.release();
    }

    /// Removes a directory that has no batch yet. Needs no descriptor.
    pub(super) fn remove_new(&self) {
        self.lock.release();
        remove_new(&self.path);
    }

    /// The path of a batch with this number and these entries.
    pub(super) fn batch_path(&self, number: u64, entries: u64) -> PathBuf {
        self.path.join(batch_name(number, entries))
    }

    /// The path of a batch that is being written; its number of entries is not known yet.
    pub(super) fn unfinished_path(&self) -> PathBuf {
        self.path.join(format!("{UNFINISHED}{BATCH_END}"))
    }

    /// All batches, the oldest first.
    pub(super) fn batches(&self) -> io::Result<Vec<StoredBatch>> {
        batches_in(&self.series, &self.path)
    }

    fn state(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the destination with this address has.
    pub(super) fn progress(&self, address: &str) -> BatchProgress {
        let progress = self.state().progress.get(address).copied();
        progress.unwrap_or_default()
    }

    /// Notes what a destination has. If it cannot be stored, the next pusher sends the bodies
    /// again; this one does not. Called by one thread at a time.
    pub(super) fn note(&self, address: &str, progress: BatchProgress) -> io::Result<()> {
        let mut state = self.state();
        state.progress.insert(address.to_owned(), progress);
        let changed = state.clone();
        drop(state); // readers do not wait for the disk
        self.keep_locked()?;
        changed.write(&self.path)
    }

    /// Whether a destination of the pusher that made it lacks a batch, and is not one of these.
    pub(super) fn is_for_others(&self, addresses: &[String], number: u64) -> bool {
        let state = self.state();
        let mut others = state.destinations.iter();
        others.any(|other| {
            let progress = state.progress.get(other).copied().unwrap_or_default();
            !addresses.contains(other) && progress.of_batch(number).is_some()
        })
    }
}

/// The files of a directory that has neither a batch nor another directory.
///
/// # Errors
/// It has one, or something else that no pusher has made there, or cannot be read.
fn remnants(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut remnants = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let unfinished = name.strip_suffix(BATCH_END) == Some(UNFINISHED);
        if name != STATE && !unfinished && !is_owner(&name) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        remnants.push(entry.path());
    }
    Ok(remnants)
}

/// The batches in the directory of a series, the oldest first.
fn batches_in(series: &SeriesId, directory: &Path) -> io::Result<Vec<StoredBatch>> {
    let mut batches = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?; // not that of the target of a link
        let parsed = entry.file_name().to_str().and_then(parse_name);
        if let Some((number, entries)) = parsed.filter(|_| metadata.is_file()) {
            let series = series.clone();
            batches.push(StoredBatch {
                id: BatchId { series, number },
                path: entry.path(),
                bytes: metadata.len(),
                entries,
            });
        }
    }
    batches.sort_by_key(|batch| batch.id.number);
    Ok(batches)
}

/// The directories in a spool, or in the directory of a pusher, that pushers of this user have
/// made. The least recently changed one is the first.
pub(super) fn directories(place: &Path) -> io::Result<Vec<(SeriesId, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place)? {
        let entry = entry?;
        let series = entry.file_name().to_str().and_then(SeriesId::parse);
        // Not that of the target of a link.
        if let (Some(series), Ok(metadata)) = (series, entry.metadata())
            && metadata.is_dir()
            && is_own(&metadata)
        {
            found.push((metadata.modified().ok(), series, entry.path()));
        }
    }
    found.sort_by_key(|(modified, ..)| *modified);
    let places = found.into_iter();
    Ok(places.map(|(_, series, path)| (series, path)).collect())
}

/// The name of a batch with this number and these entries.
fn batch_name(number: u64, entries: u64) -> String {
    format!("{number:010}-{entries}{BATCH_END}")
}

/// Removes a new directory, which has no batch. Needs no descriptor.
fn remove_new(path: &Path) {
    let _ = fs::remove_file(path.join(STATE));
    let _ = fs::remove_dir(path);
}

/// The number and the entries in the name of a batch.
fn parse_name(name: &str) -> Option<(u64, u64)> {
    let (number, entries) = name.strip_suffix(BATCH_END)?.split_once('-')?;
    Some((number.parse().ok()?, entries.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use test_support::own_process;

    use super::*;

    const A: &str = "otlp+http://a";

    fn create(spool: &Path) -> io::Result<SpoolDirectory> {
        SpoolDirectory::create(spool, &[A.to_owned()], &PushIdentity::default())
    }

    #[test]
    fn files_are_not_used_through_links() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path()).unwrap();
        let secret = spool.path().join("secret");
        fs::write(&secret, "not to be sent, and not to be changed").unwrap();
        symlink(&secret, home.batch_path(0, 1)).unwrap();
        fs::remove_file(home.path.join(STATE)).unwrap();
        symlink(&secret, home.path.join(STATE)).unwrap();
        assert_eq!(home.batches().unwrap(), []);
        assert!(home.note(A, BatchProgress::default()).is_err());
        assert_eq!(SpoolState::read(&home.path).unwrap(), None);
        let kept = fs::read_to_string(&secret).unwrap();
        assert_eq!(kept, "not to be sent, and not to be changed");
    }

    #[test]
    fn a_directory_that_cannot_be_made_for_lack_of_descriptors_leaves_nothing() {
        own_process!(); // the limit is that of the process
        let spool = tempfile::tempdir().unwrap();
        let limit = getrlimit(Resource::Nofile);
        let highest = fs::File::open(spool.path()).unwrap();
        let highest = std::os::fd::AsRawFd::as_raw_fd(&highest).cast_unsigned();
        for free in 0..8 {
            let lowered = Rlimit {
                current: Some(u64::from(highest + free)),
                maximum: limit.maximum,
            };
            setrlimit(Resource::Nofile, lowered).unwrap();
            let made = create(spool.path()).map(drop);
            setrlimit(Resource::Nofile, limit).unwrap();
            let homes = fs::read_dir(spool.path()).unwrap().count();
            assert_eq!(homes, usize::from(made.is_ok()), "{free} free: {made:?}");
            if made.is_ok() {
                return;
            }
        }
        panic!("seven descriptors are not enough");
    }
}
