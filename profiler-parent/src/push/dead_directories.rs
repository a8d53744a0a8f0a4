//! Finds the directories of dead pushers in a spool, and takes them over.
//!
//! Called when a spool is opened. Each directory that is taken over needs a descriptor, for its
//! lock, so their number is bounded. Invariants: a directory of a living pusher is left alone; the
//! batches in a directory that is not taken over stay.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::batch::SeriesId;
use super::destination::PushDestination;
use super::directory_lock::{DirectoryLock, LockError};
use super::spool_access::is_own;
use super::spool_directory::SpoolDirectory;

/// The most directories that one pusher takes over.
pub(super) const MOST_TAKEN: usize = 64;

/// The directories in a spool, except that of the pusher that opens it.
#[derive(Debug, Default)]
pub(super) struct DeadDirectories {
    /// Those that this process has taken over, the oldest first.
    pub(super) taken: Vec<SpoolDirectory>,
    /// The number of those that living pushers use.
    pub(super) in_use: u64,
    /// The number of those that cannot be read at present, or that are too many.
    pub(super) unread: u64,
    /// The size of the files in them.
    pub(super) unread_bytes: u64,
}

impl DeadDirectories {
    /// Takes over the oldest directories of dead pushers. Those without a batch are removed. `own`
    /// is the pusher's directory.
    pub(super) fn take_over(
        spool: &Path,
        own: &SeriesId,
        destinations: &[PushDestination],
    ) -> io::Result<Self> {
        let mut found = Self::default();
        for Candidate { series, path, .. } in candidates(spool)? {
            if series == *own {
                continue;
            }
            if found.taken.len() >= MOST_TAKEN {
                found.leave(&path);
                continue;
            }
            match DirectoryLock::take(&path) {
                Ok(Some(lock)) => {
                    match SpoolDirectory::locked(series, path.clone(), lock, destinations) {
                        Ok(directory) => found.add(directory, &path),
                        Err(_) => found.leave(&path),
                    }
                }
                Ok(None) | Err(LockError::Lost) => found.in_use += 1,
                Err(_) => found.leave(&path),
            }
        }
        Ok(found)
    }

    fn add(&mut self, directory: SpoolDirectory, path: &Path) {
        match directory.batches() {
            Ok(batches) if batches.is_empty() => _ = directory.remove(),
            Ok(_) => self.taken.push(directory),
            Err(_) => self.leave(path),
        }
    }

    fn leave(&mut self, path: &Path) {
        let files = fs::read_dir(path).into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        self.unread += 1;
        self.unread_bytes = self.unread_bytes.saturating_add(sizes.sum());
    }
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

/// The directories in a spool, the oldest first.
fn candidates(spool: &Path) -> io::Result<Vec<Candidate>> {
    let mut candidates = Vec::new();
    for entry in fs::read_dir(spool)? {
        candidates.extend(Candidate::of(&entry?));
    }
    candidates.sort_by_key(|candidate| candidate.modified);
    Ok(candidates)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::PushIdentity;
    use super::super::progress_file::{BatchProgress, FinishedBodies};
    use super::*;

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
        DeadDirectories::take_over(spool, &own, destinations).unwrap()
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
            (left().taken.len(), left().in_use),
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

    #[test]
    fn the_oldest_directories_are_taken_over_and_the_size_of_the_others_is_known() {
        let spool = tempfile::tempdir().unwrap();
        let most = MOST_TAKEN as u64;
        let series: Vec<String> = (0..most + 2)
            .map(|number| format!("{number:032x}"))
            .collect();
        // The last name is the oldest.
        for (age, name) in series.iter().rev().enumerate() {
            let home = spool.path().join(name);
            fs::create_dir(&home).unwrap();
            fs::write(home.join("0000000000-1.json.gz"), "12345").unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64);
            fs::File::open(&home).unwrap().set_modified(time).unwrap();
        }
        let found = take_over(spool.path(), &[]);
        let taken: Vec<_> = found
            .taken
            .iter()
            .map(|home| home.series.to_string())
            .collect();
        assert!(taken.iter().eq(series[2..].iter().rev()), "{taken:?}");
        assert_eq!((found.in_use, found.unread, found.unread_bytes), (0, 2, 10));
    }

    #[test]
    fn a_directory_without_a_batch_is_removed() {
        let spool = tempfile::tempdir().unwrap();
        fs::write(create(spool.path()).unfinished_path(), "1").unwrap();
        let found = take_over(spool.path(), &[]);
        assert_eq!((found.taken.len(), found.unread), (0, 0));
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
