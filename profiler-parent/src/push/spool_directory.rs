//! One directory of a spool: the batches of one pusher, and how far each destination has got.
//!
//! Used by the spool. A pusher makes a directory of its own and locks it (`directory_lock`). If its
//! process dies, the next pusher finds the directory unlocked and takes it over.
//!
//! ```text
//! SPOOL/3f…a0/lock                        locked while its pusher lives
//!            /owner-4711-9c…41            the mark of the process that uses it
//!            /identity                    the service, its version and the host of the batches
//!            /0000000007-5120.json.gz     batch 7 with 5120 entries
//!            /progress-9c…41              a destination has batches up to 6, and 3 bodies of 7
//! ```
//!
//! A file with progress exists for each destination of the pusher from the beginning, so another
//! pusher knows whether a batch is also for others.
//!
//! Invariants: only this user can read it; a directory of another user is left alone; no file is
//! opened through a symbolic link; a batch appears under its name when it is complete.

use std::cmp::Ordering;
use std::fs::{self, DirBuilder, DirEntry, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profiler_core::internal::sys::OwnFile;

use super::batch::{BatchId, ENCODER_VERSION, SeriesId};
use super::destination::PushDestination;
use super::directory_lock::{DirectoryLock, LockError};
use super::spool_access::is_own;
use super::{PushIdentity, stored_identity};

/// The most directories that are made until one can be locked.
const MOST_ATTEMPTS: u32 = 8;
/// The most directories of dead pushers that one pusher takes over.
const MOST_TAKEN: usize = 64;
/// What the names of files with the progress of a destination begin with.
const PROGRESS: &str = "progress-";
/// What the names of batches end with.
const BATCH_END: &str = ".json.gz";

/// A directory with the batches of one pusher.
#[derive(Debug)]
pub(super) struct SpoolDirectory {
    pub(super) series: SeriesId,
    /// That of the pusher that made it; `None` if it cannot be read, or for files.
    pub(super) identity: Option<Arc<PushIdentity>>,
    path: PathBuf,
    lock: DirectoryLock,
    /// One for each destination.
    progress: Vec<ProgressFile>,
}

/// The directories in a spool that other pushers have made.
#[derive(Debug, Default)]
pub(super) struct LeftDirectories {
    /// Those of dead pushers, which this process has taken over.
    pub(super) taken: Vec<SpoolDirectory>,
    /// The number of the others: they are in use, cannot be read, or are too many.
    pub(super) others: u64,
}

/// A batch in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredBatch {
    pub(super) id: BatchId,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// What a destination has of a directory: all batches before `next`, and these bodies of `next`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BatchProgress {
    pub(super) next: u64,
    pub(super) done: FinishedBodies,
}

/// The bodies of a batch that a destination has accepted or refused: the first bodies of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FinishedBodies {
    /// The number of these bodies.
    pub(super) bodies: u64,
    /// The number of them that the destination has refused, completely or in part.
    pub(super) refused: u64,
}

impl BatchProgress {
    /// What the destination has of a batch; `None` if it has all.
    pub(super) fn of_batch(self, number: u64) -> Option<FinishedBodies> {
        match number.cmp(&self.next) {
            Ordering::Less => None,
            Ordering::Equal => Some(self.done),
            Ordering::Greater => Some(FinishedBodies::default()),
        }
    }
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
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
                _ if attempts >= MOST_ATTEMPTS => return Err(io::ErrorKind::AlreadyExists.into()),
                _ => attempts += 1,
            }
        }
    }

    /// Stores in a new directory for whom its batches are. Removes the directory if that fails.
    fn prepared(
        series: SeriesId,
        path: PathBuf,
        lock: DirectoryLock,
        destinations: &[PushDestination],
        identity: &PushIdentity,
    ) -> io::Result<Self> {
        let stored = stored_identity::store(&path, identity).and_then(|()| {
            let mut files = destinations.iter().map(|to| ProgressFile::of(&path, to));
            files.try_for_each(|file| file.write(BatchProgress::default()))
        });
        if let Err(error) = stored {
            let _ = fs::remove_dir_all(&path);
            return Err(error);
        }
        Ok(Self::locked(series, path, lock, destinations))
    }

    /// The directories in `spool` whose pushers have died, now locked by this process, the oldest
    /// first. Those without a batch are removed.
    pub(super) fn left_behind(
        spool: &Path,
        destinations: &[PushDestination],
    ) -> io::Result<LeftDirectories> {
        let mut found = LeftDirectories::default();
        for entry in fs::read_dir(spool)? {
            let entry = entry?;
            let Some(series) = series_of(&entry) else {
                continue;
            };
            let path = entry.path();
            // Each lock needs a descriptor.
            let lock = if found.taken.len() < MOST_TAKEN {
                DirectoryLock::take(&path)
            } else {
                Ok(None)
            };
            let Ok(Some(lock)) = lock else {
                found.others += 1;
                continue;
            };
            let home = Self::locked(series, path, lock, destinations);
            match home.batches() {
                Ok(batches) if batches.is_empty() => _ = home.remove(),
                Ok(_) => found.taken.push(home),
                Err(_) => found.others += 1,
            }
        }
        let age = |home: &Self| fs::metadata(&home.path).and_then(|it| it.modified()).ok();
        found.taken.sort_by_key(age);
        Ok(found)
    }

    /// Whether a destination that is not one of this pusher lacks a batch.
    pub(super) fn is_for_others(&self, number: u64) -> bool {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        let others = paths.filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(PROGRESS) && self.progress.iter().all(|own| own.0 != *path)
        });
        let mut others = others.map(|path| ProgressFile(path).read());
        others.any(|other| other.of_batch(number).is_some())
    }

    fn locked(
        series: SeriesId,
        path: PathBuf,
        lock: DirectoryLock,
        destinations: &[PushDestination],
    ) -> Self {
        let file = |destination| ProgressFile::of(&path, destination);
        Self {
            progress: destinations.iter().map(file).collect(),
            identity: stored_identity::read(&path).map(Arc::new),
            series,
            lock,
            path,
        }
    }

    /// Makes sure that no other pusher takes over the directory, although the program may have
    /// closed all descriptors.
    ///
    /// # Errors
    /// [`LockError`].
    pub(super) fn keep_locked(&self) -> Result<(), LockError> {
        self.lock.renew()
    }

    /// Whether this process has locked it: a forked child has its parent's value.
    pub(super) fn is_locked(&self) -> bool {
        self.lock.is_held()
    }

    /// Lets another pusher take over the directory.
    pub(super) fn unlock(&self) {
        self.lock.release();
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

    /// What a destination has, by its place in the options.
    pub(super) fn progress(&self, destination: usize) -> BatchProgress {
        let file = self.progress.get(destination);
        file.map_or_else(BatchProgress::default, ProgressFile::read)
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

/// The identifier in the name of a directory of this user; `None` if it is none of a pusher.
fn series_of(entry: &DirEntry) -> Option<SeriesId> {
    let series = SeriesId::parse(entry.file_name().to_str()?)?;
    let metadata = entry.metadata().ok()?; // not that of the target of a link
    (metadata.is_dir() && is_own(&metadata)).then_some(series)
}

/// The number and the entries in the name of a batch.
fn parse_name(name: &str) -> Option<(u64, u64)> {
    let (number, entries) = name.strip_suffix(BATCH_END)?.split_once('-')?;
    Some((number.parse().ok()?, entries.parse().ok()?))
}

/// The file with the progress of one destination. It has one line of fixed length, which one write
/// replaces. It is opened for each use, because the program may close descriptors.
#[derive(Debug)]
struct ProgressFile(PathBuf);

impl ProgressFile {
    /// The length of the line: three numbers of 20 digits and one of 10, spaces and a line break.
    const LENGTH: usize = 74;

    fn of(home: &Path, destination: &PushDestination) -> Self {
        let name = format!("{PROGRESS}{:016x}", fnv(destination.address().as_bytes()));
        Self(home.join(name))
    }

    fn open(&self, options: &mut OpenOptions) -> io::Result<OwnFile> {
        let file = options.custom_flags(libc::O_NOFOLLOW).open(&self.0)?;
        Ok(file.into())
    }

    /// Reads the numbers. A damaged file counts as no progress: the bodies are sent again, with the
    /// same identifiers. If another version of the encoder has made the bodies, the batch begins
    /// anew: its bodies are divided in another way.
    fn read(&self) -> BatchProgress {
        let [next, bodies, refused, encoder] = self.numbers().unwrap_or_default();
        let is_same = encoder == u64::from(ENCODER_VERSION);
        let done = FinishedBodies { bodies, refused };
        let done = if is_same {
            done
        } else {
            FinishedBodies::default()
        };
        BatchProgress { next, done }
    }

    fn numbers(&self) -> Option<[u64; 4]> {
        let mut line = [0; Self::LENGTH];
        let file = self.open(OpenOptions::new().read(true)).ok()?;
        file.get().ok()?.read_exact_at(&mut line, 0).ok()?;
        let text = std::str::from_utf8(&line).ok()?;
        let numbers = text.trim_end().split(' ').map(|number| number.parse().ok());
        let numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        numbers.try_into().ok()
    }

    fn write(&self, BatchProgress { next, done }: BatchProgress) -> io::Result<()> {
        let FinishedBodies { bodies, refused } = done;
        let line = format!("{next:020} {bodies:020} {refused:020} {ENCODER_VERSION:010}\n");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(false).mode(0o600);
        let file = self.open(options)?;
        file.get()?.write_all_at(line.as_bytes(), 0)
    }
}

/// The hash FNV-1a, which is the same in all versions of this library.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn create(spool: &Path) -> io::Result<SpoolDirectory> {
        SpoolDirectory::create(spool, &destinations(), &PushIdentity::default())
    }

    fn progress(next: u64, bodies: u64) -> BatchProgress {
        let refused = bodies / 2;
        let done = FinishedBodies { bodies, refused };
        BatchProgress { next, done }
    }

    fn destinations() -> Vec<PushDestination> {
        ["otlp+http://a", "otlp+http://b"]
            .map(|address| PushDestination::parse(address).unwrap())
            .into()
    }

    #[test]
    fn a_directory_is_taken_over_only_after_its_pusher() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path()).unwrap();
        fs::write(home.batch_path(3, 40), "12345").unwrap();
        fs::write(home.unfinished_path(), "1").unwrap();
        home.note(1, progress(3, 2)).unwrap();
        let left = || {
            let left = SpoolDirectory::left_behind(spool.path(), &destinations());
            left.unwrap().taken
        };
        assert!(left().is_empty(), "its pusher lives");
        let series = home.series.clone();
        drop(home);
        let found = left();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].progress(0), BatchProgress::default());
        assert_eq!(found[0].progress(1), progress(3, 2));
        let batches = found[0].batches().unwrap();
        let shown: Vec<_> = batches
            .iter()
            .map(|batch| (batch.id.number, batch.bytes, batch.entries))
            .collect();
        assert_eq!(shown, [(3, 5, 40)], "an unfinished one is none");
        assert_eq!(batches[0].id.series, series);
        assert!(left().is_empty(), "it is taken over once");
    }

    #[test]
    fn damaged_progress_is_that_of_the_beginning() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path()).unwrap();
        let other = format!("{:020}x{:020} {:020} {:010}\n", 1, 2, 0, ENCODER_VERSION);
        let more = format!(
            "{:010} {:020} {:020} {:09} {:010}",
            1, 2, 0, 0, ENCODER_VERSION
        );
        for damage in ["", "x", &"9".repeat(74), &other, &more] {
            fs::write(&home.progress[0].0, damage).unwrap();
            assert_eq!(home.progress(0), BatchProgress::default(), "{damage:?}");
        }
    }

    #[test]
    fn a_batch_begins_anew_after_another_version_of_the_encoder() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path()).unwrap();
        home.note(0, progress(3, 2)).unwrap();
        let line = fs::read_to_string(&home.progress[0].0).unwrap();
        let present = format!("{ENCODER_VERSION:010}\n");
        let other = line.replace(&present, &format!("{:010}\n", ENCODER_VERSION + 1));
        fs::write(&home.progress[0].0, other).unwrap();
        assert_eq!(home.progress(0), progress(3, 0));
    }

    #[test]
    fn files_are_not_used_through_links() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path()).unwrap();
        let secret = spool.path().join("secret");
        fs::write(&secret, "not to be sent, and not to be changed").unwrap();
        symlink(&secret, home.batch_path(0, 1)).unwrap();
        fs::remove_file(&home.progress[0].0).unwrap();
        symlink(&secret, &home.progress[0].0).unwrap();
        assert_eq!(home.batches().unwrap(), []);
        assert!(home.note(0, progress(1, 0)).is_err());
        let kept = fs::read_to_string(&secret).unwrap();
        assert_eq!(kept, "not to be sent, and not to be changed");
    }

    #[test]
    fn a_link_to_a_directory_is_not_taken_over() {
        let spool = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        symlink(other.path(), spool.path().join("0".repeat(32))).unwrap();
        let found = SpoolDirectory::left_behind(spool.path(), &[]).unwrap();
        assert!(found.taken.is_empty());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }

    #[test]
    fn other_files_in_a_spool_are_left_alone() {
        let spool = tempfile::tempdir().unwrap();
        fs::create_dir(spool.path().join("notes")).unwrap();
        fs::write(spool.path().join("a"), "").unwrap();
        assert!(
            SpoolDirectory::left_behind(spool.path(), &[])
                .unwrap()
                .taken
                .is_empty()
        );
        assert!(spool.path().join("notes").exists());
    }
}
