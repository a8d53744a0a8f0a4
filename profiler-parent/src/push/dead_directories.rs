//! Finds the directories of dead pushers in a spool, and takes them over.
//!
//! Called when a spool is opened. Each directory that is taken over needs a descriptor, for its
//! lock, so their number is bounded, and smaller if the process has few descriptors left.
//! Invariants: a directory of a living pusher is left alone; the batches in a directory that is not
//! taken over stay.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::io::Errno;

use super::batch::SeriesId;
use super::destination::PushDestination;
use super::directory_lock::{DirectoryLock, LockError};
use super::spool_access::is_own;
use super::spool_directory::SpoolDirectory;

/// The directories in a spool, except that of the pusher that opens it.
#[derive(Debug, Default)]
pub(super) struct DeadDirectories {
    /// The directories that this process has taken over, the least recently changed first.
    pub(super) taken: Vec<SpoolDirectory>,
    pub(super) left: LeftDirectories,
    /// The process has too few descriptors for more locks.
    is_short: bool,
}

/// The directories that a pusher has not taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftDirectories {
    /// The number of directories that living pushers use.
    pub(super) in_use: u64,
    /// The number of directories of dead pushers that are left to a later pusher.
    pub(super) too_many: u64,
    /// The number of directories that cannot be read.
    pub(super) unreadable: u64,
    /// The size of the files in the directories that are not in use.
    pub(super) bytes: u64,
}

impl DeadDirectories {
    /// Takes over the directories of dead pushers, at most this number, the least recently changed
    /// ones. Those without a batch are removed. `own` is the pusher's directory.
    pub(super) fn take_over(
        spool: &Path,
        own: &SeriesId,
        destinations: &[PushDestination],
        most: usize,
    ) -> io::Result<Self> {
        let mut found = Self::default();
        for (series, path) in candidates(spool)? {
            if series == *own {
                continue;
            }
            match DirectoryLock::take(&path) {
                Ok(Some(_)) if found.is_short || found.taken.len() >= most => {
                    found.left.too_many += 1;
                    found.add_size(&path);
                }
                Ok(Some(lock)) => {
                    let locked = SpoolDirectory::locked(series, path.clone(), lock, destinations);
                    found.add(locked, &path);
                }
                // It has just been removed.
                Err(LockError::Lost) if !path.exists() => {}
                Ok(None) | Err(LockError::Lost | LockError::Released) => found.left.in_use += 1,
                Err(LockError::Failed(error)) => found.fail(&error, &path),
            }
        }
        Ok(found)
    }

    fn add(&mut self, locked: io::Result<SpoolDirectory>, path: &Path) {
        let counted = locked.and_then(|directory| Ok((directory.batches()?.is_empty(), directory)));
        match counted {
            Ok((true, directory)) => _ = directory.remove(),
            Ok((false, directory)) => self.taken.push(directory),
            Err(error) => self.fail(&error, path),
        }
    }

    /// A directory cannot be read. If the process has no descriptor left, gives back half of the
    /// taken ones: the program and the requests of the pusher need some, too.
    fn fail(&mut self, error: &io::Error, path: &Path) {
        if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(error) {
            self.is_short = true;
            self.left.too_many += 1;
            for given_back in self.taken.split_off(self.taken.len() / 2) {
                let path = given_back.path().to_owned();
                drop(given_back);
                self.left.too_many += 1;
                self.add_size(&path);
            }
        } else {
            self.left.unreadable += 1;
        }
        self.add_size(path);
    }

    fn add_size(&mut self, path: &Path) {
        let files = fs::read_dir(path).into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        self.left.bytes = self.left.bytes.saturating_add(sizes.sum());
    }
}

/// The directories in a spool that pushers of this user have made. The least recently changed one
/// is the first.
pub(super) fn candidates(spool: &Path) -> io::Result<Vec<(SeriesId, PathBuf)>> {
    let mut candidates = Vec::new();
    for entry in fs::read_dir(spool)? {
        candidates.extend(Candidate::of(&entry?));
    }
    candidates.sort_by_key(|candidate| candidate.modified);
    let places = candidates.into_iter();
    Ok(places.map(|found| (found.series, found.path)).collect())
}

/// A directory that a pusher of this user has made.
struct Candidate {
    modified: Option<SystemTime>,
    series: SeriesId,
    path: PathBuf,
}

impl Candidate {
    fn of(entry: &DirEntry) -> Option<Self> {
        let series = SeriesId::parse(entry.file_name().to_str()?)?;
        let metadata = entry.metadata().ok()?; // not that of the target of a link
        (metadata.is_dir() && is_own(&metadata)).then(|| Self {
            modified: metadata.modified().ok(),
            series,
            path: entry.path(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use test_support::own_process;

    use super::super::PushIdentity;
    use super::super::progress_file::{BatchProgress, FinishedBodies};
    use super::*;

    const MOST: usize = 3;

    fn create(spool: &Path) -> SpoolDirectory {
        SpoolDirectory::create(spool, &destinations(), &PushIdentity::default()).unwrap()
    }

    fn destinations() -> Vec<PushDestination> {
        ["otlp+http://a", "otlp+http://b"]
            .map(|address| PushDestination::parse(address).unwrap())
            .into()
    }

    fn take_over(spool: &Path, destinations: &[PushDestination]) -> DeadDirectories {
        let own = SeriesId::new().unwrap();
        DeadDirectories::take_over(spool, &own, destinations, MOST).unwrap()
    }

    #[test]
    fn a_directory_is_taken_over_only_after_its_pusher() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path());
        fs::write(home.batch_path(3, 40), "12345").unwrap();
        fs::write(home.unfinished_path(), "1").unwrap();
        let done = FinishedBodies {
            bodies: 2,
            refused: 1,
        };
        let progress = BatchProgress { next: 3, done };
        home.note(1, progress).unwrap();
        let left = || take_over(spool.path(), &destinations());
        assert_eq!(
            (left().taken.len(), left().left.in_use),
            (0, 1),
            "its pusher lives"
        );
        let series = home.series.clone();
        drop(home);
        let found = left().taken;
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].earlier(0), BatchProgress::default());
        assert_eq!(found[0].earlier(1), progress);
        let batches = found[0].batches().unwrap();
        let shown: Vec<_> = batches
            .iter()
            .map(|batch| (batch.id.number, batch.bytes, batch.entries))
            .collect();
        assert_eq!(shown, [(3, 5, 40)], "an unfinished one is none");
        assert_eq!(batches[0].id.series, series);
        assert!(left().taken.is_empty(), "it is taken over once");
    }

    #[test]
    fn a_batch_is_for_the_destinations_of_its_pusher_that_lack_it_and_for_no_others() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path());
        fs::write(home.batch_path(3, 40), "12345").unwrap();
        let done = FinishedBodies::default();
        home.note(1, BatchProgress { next: 4, done }).unwrap();
        drop(home);
        let [a, b] = destinations().try_into().unwrap();
        let new = PushDestination::parse("otlp+http://new").unwrap();
        for (to, others_lack) in [(vec![a.clone()], [false, true]), (vec![b, new], [true; 2])] {
            let found = take_over(spool.path(), &to).taken;
            assert_eq!(
                [3, 4].map(|number| found[0].is_for_others(number)),
                others_lack
            );
            found[0]
                .note(to.len() - 1, BatchProgress::default())
                .unwrap();
        }
        let all = destinations();
        assert!(!take_over(spool.path(), &all).taken[0].is_for_others(4));
    }

    /// Makes directories with a batch of five bytes. The last name is the least recently changed.
    fn leave(spool: &Path, count: u64) -> Vec<String> {
        let series: Vec<String> = (0..count).map(|number| format!("{number:032x}")).collect();
        for (age, name) in series.iter().rev().enumerate() {
            let home = spool.join(name);
            fs::create_dir(&home).unwrap();
            fs::write(home.join("0000000000-1.json.gz"), "12345").unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(age as u64);
            fs::File::open(&home).unwrap().set_modified(time).unwrap();
        }
        series
    }

    #[test]
    fn a_bounded_number_of_directories_is_taken_over_and_those_in_use_are_told_from_the_others() {
        let spool = tempfile::tempdir().unwrap();
        let series = leave(spool.path(), 5);
        let _living = create(spool.path());
        let found = take_over(spool.path(), &[]);
        let taken = found.taken.iter().map(|home| home.series.to_string());
        let taken: Vec<_> = taken.collect();
        assert!(taken.iter().eq(series[2..].iter().rev()), "{taken:?}");
        let LeftDirectories {
            in_use,
            too_many,
            unreadable,
            bytes,
        } = found.left;
        assert_eq!((in_use, too_many, unreadable), (1, 2, 0));
        assert!(bytes >= 10, "{bytes}");
    }

    #[test]
    fn directories_are_given_back_if_the_process_has_no_descriptors_for_them() {
        own_process!(); // the limit is that of the process
        let spool = tempfile::tempdir().unwrap();
        leave(spool.path(), 100);
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit {
            current: Some(50),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        let own = SeriesId::new().unwrap();
        let found = DeadDirectories::take_over(spool.path(), &own, &[], 1000).unwrap();
        let more: Vec<_> = (0..10).map(|_| fs::File::open(spool.path())).collect();
        assert!(more.iter().all(Result::is_ok), "the program needs some");
        let taken = found.taken.len() as u64;
        assert!((5..30).contains(&taken), "{taken}");
        assert_eq!(taken + found.left.too_many, 100);
        assert_eq!((found.left.in_use, found.left.unreadable), (0, 0));
    }

    #[test]
    fn a_directory_that_cannot_be_read_is_counted_and_stays() {
        let spool = tempfile::tempdir().unwrap();
        let series = leave(spool.path(), 1);
        let home = spool.path().join(&series[0]);
        fs::create_dir(home.join("identity")).unwrap();
        let found = take_over(spool.path(), &[]);
        assert_eq!((found.taken.len(), found.left.unreadable), (0, 1));
        assert!(home.join("0000000000-1.json.gz").exists());
    }

    #[test]
    fn a_directory_without_a_batch_is_removed() {
        let spool = tempfile::tempdir().unwrap();
        fs::write(create(spool.path()).unfinished_path(), "1").unwrap();
        let found = take_over(spool.path(), &[]);
        assert_eq!(
            (found.taken.len(), found.left),
            (0, LeftDirectories::default())
        );
        assert_eq!(fs::read_dir(spool.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_to_a_directory_is_not_taken_over() {
        let spool = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        symlink(other.path(), spool.path().join("0".repeat(32))).unwrap();
        assert!(take_over(spool.path(), &[]).taken.is_empty());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }

    #[test]
    fn other_files_in_a_spool_are_left_alone() {
        let spool = tempfile::tempdir().unwrap();
        fs::create_dir(spool.path().join("notes")).unwrap();
        fs::write(spool.path().join("a"), "").unwrap();
        assert!(take_over(spool.path(), &[]).taken.is_empty());
        assert!(spool.path().join("notes").exists());
    }
}
