//! One directory of a spool: the batches of one pusher, and how far each destination has got.
//!
//! Used by the spool. A pusher makes a directory of its own and locks it (`directory_lock`). If its
//! process dies, the next pusher finds the directory unlocked and takes it over.
//!
//! ```text
//! SPOOL/3f…a0/lock                        locked while its pusher lives
//!            /owner-4711-9c…41            the mark of the process that uses it
//!            /identity                    the service, its version and the host of the batches,
//!                                         and the addresses of the destinations
//!            /0000000007-5120.json.gz     batch 7 with 5120 entries
//!            /progress-9c…41              a destination has batches up to 6, and 3 bodies of 7
//! ```
//!
//! Invariants: only this user can read it; a directory of another user is left alone; no file is
//! opened through a symbolic link; a batch appears under its name when it is complete.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::PushIdentity;
use super::batch::{BatchId, SeriesId};
use super::destination::PushDestination;
use super::directory_lock::{DirectoryLock, LOCK, LockError};
use super::progress_file::{BatchProgress, ProgressFile};
use super::stored_identity::{IDENTITY, StoredIdentity};

/// The most directories that are made until one can be locked.
const MOST_ATTEMPTS: u32 = 8;
/// What the names of batches end with.
const BATCH_END: &str = ".json.gz";

/// A directory with the batches of one pusher.
#[derive(Debug)]
pub(super) struct SpoolDirectory {
    pub(super) series: SeriesId,
    /// That of the pusher that made it; `None` if it cannot be read, or for files.
    pub(super) identity: Option<Arc<PushIdentity>>,
    path: PathBuf,
    /// `None` in the temporary spool of files, which is locked as a whole.
    lock: Option<DirectoryLock>,
    /// One for each destination.
    progress: Vec<ProgressFile>,
    /// What each destination had when the directory was locked.
    earlier: Vec<BatchProgress>,
    /// The first batch that another destination lacks: one that its first pusher had, and that is
    /// not one of the present destinations.
    others_lack: Option<u64>,
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
        destinations: &[PushDestination],
        identity: &PushIdentity,
    ) -> io::Result<Self> {
        let mut attempts = 1;
        loop {
            let series = SeriesId::new()?;
            let path = spool.join(series.to_string());
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&path)?;
            // Until it is locked, another pusher may take it for one that was left behind.
            match DirectoryLock::take(&path) {
                Ok(Some(lock)) => {
                    return Self::prepared(series, path, lock, destinations, identity);
                }
                Err(LockError::Failed(error)) => {
                    remove_new(&path);
                    return Err(error);
                }
                _ if attempts >= MOST_ATTEMPTS => return Err(io::ErrorKind::AlreadyExists.into()),
                _ => attempts += 1,
            }
        }
    }

    /// Stores the identity and the destinations in a new directory. Removes it if that fails.
    fn prepared(
        series: SeriesId,
        path: PathBuf,
        lock: DirectoryLock,
        destinations: &[PushDestination],
        identity: &PushIdentity,
    ) -> io::Result<Self> {
        let stored = StoredIdentity {
            identity: identity.clone(),
            destinations: destinations.iter().map(PushDestination::address).collect(),
        };
        let made = stored
            .store(&path)
            .and_then(|()| Self::locked(series, path.clone(), lock, destinations));
        made.inspect_err(|_| remove_new(&path))
    }

    /// A directory that this process has locked.
    ///
    /// # Errors
    /// A file in it cannot be read at present.
    pub(super) fn locked(
        series: SeriesId,
        path: PathBuf,
        lock: DirectoryLock,
        destinations: &[PushDestination],
    ) -> io::Result<Self> {
        let StoredIdentity {
            identity,
            destinations: of_pusher,
        } = match StoredIdentity::read(&path)? {
            Some(stored) => stored,
            None => return Self::without_identity(series, path, Some(lock), destinations),
        };
        let mut home = Self::without_identity(series, path, Some(lock), destinations)?;
        home.identity = Some(Arc::new(identity));
        let own: Vec<String> = destinations.iter().map(PushDestination::address).collect();
        for other in of_pusher.iter().filter(|address| !own.contains(address)) {
            let BatchProgress { next, .. } = ProgressFile::of(&home.path, other).read()?;
            home.others_lack = Some(home.others_lack.map_or(next, |lacked| lacked.min(next)));
        }
        Ok(home)
    }

    /// A directory in the temporary spool of files.
    ///
    /// # Errors
    /// A file in it cannot be read at present.
    pub(super) fn of_file(
        series: SeriesId,
        path: PathBuf,
        destinations: &[PushDestination],
    ) -> io::Result<Self> {
        Self::without_identity(series, path, None, destinations)
    }

    fn without_identity(
        series: SeriesId,
        path: PathBuf,
        lock: Option<DirectoryLock>,
        destinations: &[PushDestination],
    ) -> io::Result<Self> {
        let addresses = destinations.iter().map(PushDestination::address);
        let progress: Vec<_> = addresses
            .map(|address| ProgressFile::of(&path, &address))
            .collect();
        let earlier = progress.iter().map(ProgressFile::read);
        Ok(Self {
            earlier: earlier.collect::<io::Result<_>>()?,
            progress,
            identity: None,
            others_lack: None,
            series,
            lock,
            path,
        })
    }

    /// Whether another destination than the present ones lacks a batch.
    pub(super) fn is_for_others(&self, number: u64) -> bool {
        self.others_lack.is_some_and(|first| number >= first)
    }

    /// Makes sure that no other pusher takes over the directory, although the program may have
    /// closed all descriptors.
    ///
    /// # Errors
    /// [`LockError`].
    pub(super) fn keep_locked(&self) -> Result<(), LockError> {
        self.lock.as_ref().map_or(Ok(()), DirectoryLock::renew)
    }

    /// Whether this process has locked it: a forked child has its parent's value.
    pub(super) fn is_locked(&self) -> bool {
        self.lock.as_ref().is_some_and(DirectoryLock::is_held)
    }

    /// Lets another pusher take over the directory.
    pub(super) fn unlock(&self) {
        if let Some(lock) = &self.lock {
            lock.release();
        }
    }

    /// Removes a directory that has no batch yet. Needs no descriptor.
    pub(super) fn remove_new(&self) {
        self.unlock();
        remove_new(&self.path);
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a batch with this number and these entries.
    pub(super) fn batch_path(&self, number: u64, entries: u64) -> PathBuf {
        self.path.join(batch_name(number, entries))
    }

    /// The path of a batch that is being written; its number of entries is not known yet.
    pub(super) fn unfinished_path(&self) -> PathBuf {
        self.path.join(format!("next{BATCH_END}"))
    }

    /// All batches, the oldest first.
    pub(super) fn batches(&self) -> io::Result<Vec<StoredBatch>> {
        let mut batches = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let metadata = entry.metadata()?; // not that of the target of a link
            let parsed = entry.file_name().to_str().and_then(parse_name);
            if let Some((number, entries)) = parsed.filter(|_| metadata.is_file()) {
                let id = BatchId {
                    series: self.series.clone(),
                    number,
                };
                batches.push(StoredBatch {
                    id,
                    path: entry.path(),
                    bytes: metadata.len(),
                    entries,
                });
            }
        }
        batches.sort_by_key(|batch| batch.id.number);
        Ok(batches)
    }

    /// What a destination, by its place in the options, had when the directory was locked.
    pub(super) fn earlier(&self, destination: usize) -> BatchProgress {
        self.earlier.get(destination).copied().unwrap_or_default()
    }

    /// Notes what a destination has.
    pub(super) fn note(&self, destination: usize, progress: BatchProgress) -> io::Result<()> {
        self.keep_locked()?;
        let file = self.progress.get(destination);
        file.map_or(Ok(()), |file| file.write(progress))
    }

    /// Removes the directory.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }
}

/// The name of a batch with this number and these entries.
pub(super) fn batch_name(number: u64, entries: u64) -> String {
    format!("{number:010}-{entries}{BATCH_END}")
}

/// Removes a new directory, which has no batch. Needs no descriptor.
fn remove_new(path: &Path) {
    for name in [LOCK, IDENTITY] {
        let _ = fs::remove_file(path.join(name));
    }
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

    fn create(spool: &Path) -> io::Result<SpoolDirectory> {
        let destination = PushDestination::parse("otlp+http://a").unwrap();
        SpoolDirectory::create(spool, &[destination], &PushIdentity::default())
    }

    #[test]
    fn files_are_not_used_through_links() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path()).unwrap();
        let secret = spool.path().join("secret");
        fs::write(&secret, "not to be sent, and not to be changed").unwrap();
        symlink(&secret, home.batch_path(0, 1)).unwrap();
        symlink(&secret, &home.progress[0].0).unwrap();
        assert_eq!(home.batches().unwrap(), []);
        let progress = BatchProgress::default();
        assert!(home.note(0, progress).is_err());
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
