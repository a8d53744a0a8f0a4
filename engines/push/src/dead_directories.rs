//! Finds the directories of dead pushers in a spool, and moves them into that of a pusher.
//!
//! Called when a spool is opened. Invariants: a directory of a living pusher is left alone; a move
//! is one step of the system, so a pusher that dies meanwhile loses nothing; the batches in a
//! directory that is not taken over stay.

use std::fs;
use std::io;
use std::path::Path;

use super::batch::SeriesId;
use super::directory_lock::is_in_use;
use super::spool_directory::{SpoolDirectory, directories};

/// A file that only directories of an earlier format have.
const EARLIER_FORMAT: &str = "identity";

/// The directories in a spool, except that of the pusher that opens it.
#[derive(Debug, Default)]
pub(super) struct DeadDirectories {
    /// The directories that this process has taken over, the least recently changed first.
    pub(super) taken: Vec<SpoolDirectory>,
    pub(super) left: LeftDirectories,
}

/// The directories that a pusher has not taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftDirectories {
    /// The number of directories that living pushers use.
    pub(super) in_use: u64,
    /// The number of directories that cannot be read, or have an earlier format.
    pub(super) unreadable: u64,
    /// The size of the files in the directories that cannot be read.
    pub(super) bytes: u64,
}

impl DeadDirectories {
    /// Takes over the directories of dead pushers. Those without a batch are removed. `own` is the
    /// pusher's directory.
    pub(super) fn take_over(spool: &Path, own: &SpoolDirectory) -> io::Result<Self> {
        let mut found = Self::default();
        for (series, path) in directories(spool)? {
            if series == own.series {
                continue;
            }
            match is_in_use(&path) {
                Ok(true) => found.left.in_use += 1,
                Ok(false) => found.add(own, series, &path),
                Err(error) => found.leave(&error, &path),
            }
        }
        Ok(found)
    }

    /// Takes over a directory, and first those in it, which its pusher has taken over.
    fn add(&mut self, own: &SpoolDirectory, series: SeriesId, path: &Path) {
        let is_earlier = fs::symlink_metadata(path.join(EARLIER_FORMAT)).is_ok();
        let moved = match is_earlier {
            true => Err(io::ErrorKind::Unsupported.into()),
            false => own.move_in(series, path),
        };
        match moved {
            Ok(moved) => {
                for (series, path) in directories(&moved.path).unwrap_or_default() {
                    self.add(own, series, &path);
                }
                if !moved.remove_empty() {
                    self.taken.push(moved);
                }
            }
            Err(error) => self.leave(&error, path),
        }
    }

    /// Counts a directory that cannot be taken over at present, unless it has just been removed, or
    /// moved by another pusher.
    fn leave(&mut self, error: &io::Error, path: &Path) {
        if error.kind() == io::ErrorKind::NotFound && !path.exists() {
            return;
        }
        let files = fs::read_dir(path).into_iter().flatten().flatten();
        let sizes = files.filter_map(|file| Some(file.metadata().ok()?.len()));
        self.left.bytes = self.left.bytes.saturating_add(sizes.sum());
        self.left.unreadable += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, SystemTime};

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use test_support::own_process;

    use super::super::PushIdentity;
    use super::super::spool_state::{BatchProgress, FinishedBodies, STATE};
    use super::*;

    const A: &str = "otlp+http://a";
    const B: &str = "otlp+http://b";

    fn create(spool: &Path) -> SpoolDirectory {
        let addresses = [A, B].map(str::to_owned);
        SpoolDirectory::create(spool, &addresses, &PushIdentity::default()).unwrap()
    }

    /// A pusher that takes over what is in a spool. It dies when it is dropped.
    struct Pusher {
        own: SpoolDirectory,
        taken: Vec<SpoolDirectory>,
        left: LeftDirectories,
    }

    impl Pusher {
        fn start(spool: &Path) -> Self {
            let own = create(spool);
            let DeadDirectories { taken, left } = DeadDirectories::take_over(spool, &own).unwrap();
            Self { own, taken, left }
        }

        fn end(self, spool: &Path) {
            self.taken.iter().for_each(|taken| taken.give_back(spool));
            self.own.release();
        }

        /// The names of the directories that it has taken over.
        fn names(&self) -> Vec<String> {
            let taken = self.taken.iter();
            taken.map(|home| home.series.to_string()).collect()
        }
    }

    /// The number of directories that a pusher takes over, and those that it leaves.
    fn found(spool: &Path) -> (usize, LeftDirectories) {
        let pusher = Pusher::start(spool);
        let found = (pusher.taken.len(), pusher.left);
        pusher.end(spool);
        found
    }

    fn count(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
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
        home.note(B, progress).unwrap();
        let (taken, left) = found(spool.path());
        assert_eq!((taken, left.in_use), (0, 1), "its pusher lives");
        let series = home.series.clone();
        drop(home);
        let pusher = Pusher::start(spool.path());
        let [taken] = &pusher.taken[..] else {
            panic!("{:?}", pusher.taken)
        };
        assert_eq!(taken.progress(A), BatchProgress::default());
        assert_eq!(taken.progress(B), progress);
        let batches = taken.batches().unwrap();
        let shown: Vec<_> = batches
            .iter()
            .map(|batch| (batch.id.number, batch.bytes, batch.entries))
            .collect();
        assert_eq!(shown, [(3, 5, 40)], "an unfinished one is none");
        assert_eq!(batches[0].id.series, series);
        let (again, left) = found(spool.path());
        assert_eq!((again, left.in_use), (0, 1), "it is taken over once");
    }

    #[test]
    fn a_batch_is_for_the_destinations_of_its_pusher_that_lack_it_and_for_no_others() {
        let spool = tempfile::tempdir().unwrap();
        let home = create(spool.path());
        fs::write(home.batch_path(3, 40), "12345").unwrap();
        let done = FinishedBodies::default();
        home.note(B, BatchProgress { next: 4, done }).unwrap();
        drop(home);
        let new = "otlp+http://new";
        for (to, others_lack) in [
            (vec![A], [false, true]),
            (vec![B, new], [true; 2]),
            (vec![A, B], [false; 2]),
        ] {
            let pusher = Pusher::start(spool.path());
            let to: Vec<_> = to.into_iter().map(str::to_owned).collect();
            let lack = [3, 4].map(|number| pusher.taken[0].is_for_others(&to, number));
            assert_eq!(lack, others_lack, "{to:?}");
            let noted = pusher.taken[0].note(to.last().unwrap(), BatchProgress::default());
            noted.unwrap();
        }
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
    fn directories_are_taken_over_by_age_and_those_in_use_are_told_from_the_others() {
        let spool = tempfile::tempdir().unwrap();
        let series = leave(spool.path(), 5);
        let _living = create(spool.path());
        let pusher = Pusher::start(spool.path());
        assert!(
            pusher.names().iter().eq(series.iter().rev()),
            "{:?}",
            pusher.names()
        );
        let left = LeftDirectories {
            in_use: 1,
            ..LeftDirectories::default()
        };
        assert_eq!(pusher.left, left);
    }

    #[test]
    fn what_a_pusher_has_taken_over_is_there_after_its_end_and_after_its_death() {
        let spool = tempfile::tempdir().unwrap();
        let series = leave(spool.path(), 3);
        let pusher = Pusher::start(spool.path());
        fs::write(pusher.own.batch_path(0, 1), "1").unwrap();
        assert_eq!(count(spool.path()), 1, "one directory with all others");
        let own = pusher.own.series.to_string();
        drop(pusher);
        for _ in 0..3 {
            let next = Pusher::start(spool.path());
            let mut names = next.names();
            assert_eq!(names.pop().as_ref(), Some(&own), "the latest");
            assert_eq!(names.len(), series.len());
            assert!(series.iter().all(|name| names.contains(name)), "{names:?}");
            assert_eq!(next.left, LeftDirectories::default());
            drop(next);
        }
        let next = Pusher::start(spool.path());
        let home = &next.taken[0];
        home.batches().unwrap().iter().for_each(|batch| {
            fs::remove_file(&batch.path).unwrap();
        });
        next.end(spool.path());
        assert_eq!(count(spool.path()), series.len(), "an empty one is removed");
    }

    #[test]
    fn more_directories_are_taken_over_than_a_process_has_descriptors() {
        own_process!(); // the limit is that of the process
        let spool = tempfile::tempdir().unwrap();
        leave(spool.path(), 100);
        let limit = getrlimit(Resource::Nofile);
        let lowered = Rlimit {
            current: Some(50),
            maximum: limit.maximum,
        };
        setrlimit(Resource::Nofile, lowered).unwrap();
        let pusher = Pusher::start(spool.path());
        let more: Vec<_> = (0..10).map(|_| fs::File::open(spool.path())).collect();
        assert!(more.iter().all(Result::is_ok), "the program needs some");
        assert_eq!(pusher.taken.len(), 100);
        assert_eq!(pusher.left, LeftDirectories::default());
    }

    #[test]
    fn a_directory_that_cannot_be_read_or_has_an_earlier_format_is_counted_and_stays() {
        for (name, is_directory) in [(STATE, true), (EARLIER_FORMAT, false)] {
            let spool = tempfile::tempdir().unwrap();
            let series = leave(spool.path(), 1);
            let home = spool.path().join(&series[0]);
            match is_directory {
                true => fs::create_dir(home.join(name)).unwrap(),
                false => fs::write(home.join(name), "{}").unwrap(),
            }
            let (taken, left) = found(spool.path());
            assert_eq!((taken, left.in_use, left.unreadable), (0, 0, 1), "{name}");
            assert!(left.bytes >= 5, "{left:?}");
            assert!(home.join("0000000000-1.json.gz").exists());
        }
    }

    #[test]
    fn a_directory_without_a_batch_is_removed() {
        let spool = tempfile::tempdir().unwrap();
        fs::write(create(spool.path()).unfinished_path(), "1").unwrap();
        assert_eq!(found(spool.path()), (0, LeftDirectories::default()));
        assert_eq!(count(spool.path()), 0);
    }

    #[test]
    fn a_link_to_a_directory_is_not_taken_over() {
        let spool = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        symlink(other.path(), spool.path().join("0".repeat(32))).unwrap();
        assert_eq!(found(spool.path()).0, 0);
        assert_eq!(count(other.path()), 0);
    }

    #[test]
    fn other_files_in_a_spool_are_left_alone() {
        let spool = tempfile::tempdir().unwrap();
        fs::create_dir(spool.path().join("notes")).unwrap();
        fs::write(spool.path().join("a"), "").unwrap();
        assert_eq!(found(spool.path()).0, 0);
        assert_eq!(count(spool.path()), 2);
    }
}
