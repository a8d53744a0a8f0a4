//! One directory of a spool: the batches of one pusher, and how far each destination has got.
//!
//! Used by the spool. A pusher makes a directory of its own and locks it. If its process dies, the
//! next pusher finds the directory unlocked and takes it over. The lock is one of `fcntl`, which
//! forked children do not inherit: they may outlive the pusher. Such a lock does not exclude its own
//! process, and ends when the process closes the file anywhere, so a process marks the directories
//! that it uses, and does not open the lock of a directory that has its mark.
//!
//! ```text
//! SPOOL/3f…a0/lock                        locked while its pusher lives
//!            /owner-4711-9c…41            the mark of the process that uses it
//!            /0000000007-5120.json.gz     batch 7 with 5120 entries
//!            /progress-9c…41              a destination has batches up to 6, and 3 bodies of 7
//! ```
//!
//! Invariants: only this user can read it; a batch appears under its name when it is complete.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, fcntl_lock};

use super::batch::{BatchId, SeriesId};
use super::destination::PushDestination;

/// The name of the file that a living pusher has locked.
const LOCK: &str = "lock";
/// What the name of the mark of a process begins with.
const OWNER: &str = "owner-";
/// What the names of batches end with.
const BATCH_END: &str = ".json.gz";

/// A directory with the batches of one pusher.
#[derive(Debug)]
pub(super) struct SpoolHome {
    pub(super) series: SeriesId,
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
    /// Dropped after the file.
    _mark: OwnerMark,
    /// One for each destination; `None` if it cannot be written.
    progress: Vec<Option<ProgressFile>>,
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
pub(super) struct HomeProgress {
    pub(super) next: u64,
    pub(super) bodies: u64,
}

impl SpoolHome {
    /// Makes a directory in `spool`.
    pub(super) fn create(spool: &Path, destinations: &[PushDestination]) -> io::Result<Self> {
        let series = SeriesId::new()?;
        let path = spool.join(series.to_string());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        let mark = OwnerMark::set(&path)?.ok_or(io::ErrorKind::AlreadyExists)?;
        let lock = locked_file(&path)?;
        Ok(Self::locked(series, path, lock, mark, destinations))
    }

    /// The directories in `spool` whose pushers have died, now locked by this process.
    pub(super) fn left_behind(
        spool: &Path,
        destinations: &[PushDestination],
    ) -> io::Result<Vec<Self>> {
        let mut homes = Vec::new();
        for entry in fs::read_dir(spool)? {
            let entry = entry?;
            let name = entry.file_name();
            let series = name.to_str().and_then(SeriesId::parse);
            let Some(series) = series.filter(|_| entry.file_type().is_ok_and(|it| it.is_dir()))
            else {
                continue;
            };
            let path = entry.path();
            // A directory that cannot be marked or locked is in use, or of another user.
            let Ok(Some(mark)) = OwnerMark::set(&path) else {
                continue;
            };
            if let Ok(lock) = locked_file(&path) {
                mark.remove_others(&path)?;
                homes.push(Self::locked(series, path, lock, mark, destinations));
            }
        }
        homes.sort_by_key(|home| fs::metadata(&home.path).and_then(|it| it.modified()).ok());
        Ok(homes)
    }

    fn locked(
        series: SeriesId,
        path: PathBuf,
        lock: File,
        mark: OwnerMark,
        destinations: &[PushDestination],
    ) -> Self {
        let open = |destination: &PushDestination| ProgressFile::open(&path, destination).ok();
        Self {
            progress: destinations.iter().map(open).collect(),
            series,
            _lock: lock,
            _mark: mark,
            path,
        }
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
            if let Some((number, entries)) = entry.file_name().to_str().and_then(parse_name) {
                let id = BatchId {
                    series: self.series.clone(),
                    number,
                };
                batches.push(StoredBatch {
                    id,
                    path: entry.path(),
                    bytes: entry.metadata()?.len(),
                    entries,
                });
            }
        }
        batches.sort_by_key(|batch| batch.id.number);
        Ok(batches)
    }

    /// What a destination has, by its place in the options.
    pub(super) fn progress(&self, destination: usize) -> HomeProgress {
        let file = self.progress.get(destination).and_then(Option::as_ref);
        file.map_or_else(HomeProgress::default, ProgressFile::read)
    }

    /// Notes what a destination has.
    pub(super) fn note(&self, destination: usize, progress: HomeProgress) -> io::Result<()> {
        match self.progress.get(destination) {
            Some(Some(file)) => file.write(progress),
            _ => Ok(()),
        }
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

/// The file with which a process marks a directory that it uses. Removed when it is dropped.
#[derive(Debug)]
struct OwnerMark(PathBuf);

impl OwnerMark {
    /// Marks a directory. `None` if this process already uses it.
    fn set(home: &Path) -> io::Result<Option<Self>> {
        let path = home.join(format!("{OWNER}{}", process_mark()));
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match created {
            Ok(_) => Ok(Some(Self(path))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the marks of dead processes. Called with the directory locked.
    fn remove_others(&self, home: &Path) -> io::Result<()> {
        for entry in fs::read_dir(home)? {
            let entry = entry?;
            let is_mark = entry.file_name().to_string_lossy().starts_with(OWNER);
            if is_mark && entry.path() != self.0 {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for OwnerMark {
    fn drop(&mut self) {
        // The directory may have been removed.
        let _ = fs::remove_file(&self.0);
    }
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
/// locked it.
fn locked_file(home: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(home.join(LOCK))?;
    fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// The number and the entries in the name of a batch.
fn parse_name(name: &str) -> Option<(u64, u64)> {
    let (number, entries) = name.strip_suffix(BATCH_END)?.split_once('-')?;
    Some((number.parse().ok()?, entries.parse().ok()?))
}

/// The file with the progress of one destination. It has one line of fixed length, which one write
/// replaces.
#[derive(Debug)]
struct ProgressFile(File);

impl ProgressFile {
    /// The length of the line: two numbers of 20 digits, a space and a line break.
    const LENGTH: usize = 42;

    fn open(home: &Path, destination: &PushDestination) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600);
        let name = format!("progress-{:016x}", fnv(destination.address().as_bytes()));
        options.open(home.join(name)).map(Self)
    }

    /// Reads the numbers. A damaged file counts as no progress: the bodies are sent again, with the
    /// same identifiers.
    fn read(&self) -> HomeProgress {
        let mut line = [0; Self::LENGTH];
        let read = self.0.read_exact_at(&mut line, 0);
        let text = read.ok().and_then(|()| std::str::from_utf8(&line).ok());
        let numbers = text.and_then(|text| {
            let (next, bodies) = text.trim_end().split_once(' ')?;
            Some((next.parse().ok()?, bodies.parse().ok()?))
        });
        let (next, bodies) = numbers.unwrap_or_default();
        HomeProgress { next, bodies }
    }

    fn write(&self, HomeProgress { next, bodies }: HomeProgress) -> io::Result<()> {
        let line = format!("{next:020} {bodies:020}\n");
        self.0.write_all_at(line.as_bytes(), 0)
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
    use super::*;

    fn destinations() -> Vec<PushDestination> {
        ["otlp+http://a", "otlp+http://b"]
            .map(|address| PushDestination::parse(address).unwrap())
            .into()
    }

    #[test]
    fn a_directory_is_taken_over_only_after_its_pusher() {
        let spool = tempfile::tempdir().unwrap();
        let home = SpoolHome::create(spool.path(), &destinations()).unwrap();
        fs::write(home.batch_path(3, 40), "12345").unwrap();
        fs::write(home.unfinished_path(), "1").unwrap();
        home.note(1, HomeProgress { next: 3, bodies: 2 }).unwrap();
        let left = || SpoolHome::left_behind(spool.path(), &destinations()).unwrap();
        assert!(left().is_empty(), "its pusher lives");
        let series = home.series.clone();
        drop(home);
        let found = left();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].progress(0), HomeProgress::default());
        assert_eq!(found[0].progress(1), HomeProgress { next: 3, bodies: 2 });
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
        let home = SpoolHome::create(spool.path(), &destinations()).unwrap();
        for damage in ["", "x", &"9".repeat(42), &format!("{:020}x{:020}\n", 1, 2)] {
            let file = home.progress[0].as_ref().unwrap();
            file.0.set_len(0).unwrap();
            file.0.write_all_at(damage.as_bytes(), 0).unwrap();
            assert_eq!(home.progress(0), HomeProgress::default(), "{damage:?}");
        }
    }

    #[test]
    fn other_files_in_a_spool_are_left_alone() {
        let spool = tempfile::tempdir().unwrap();
        fs::create_dir(spool.path().join("notes")).unwrap();
        fs::write(spool.path().join("a"), "").unwrap();
        assert!(
            SpoolHome::left_behind(spool.path(), &[])
                .unwrap()
                .is_empty()
        );
        assert!(spool.path().join("notes").exists());
    }
}
