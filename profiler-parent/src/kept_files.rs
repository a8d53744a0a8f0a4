//! The latest profiles of a kind in a directory: those of alerts, and those of captures on a sign.
//!
//! Invariants: the number of files is bounded, and the oldest is removed first; no file replaces
//! another; only a file that was written here is removed, and only if it is still as it was
//! written.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use profiler_core::time::UnixNs;
use profiler_sys::FileStamp;

/// The number of the next file: unique in this process.
static NUMBER: AtomicU64 = AtomicU64::new(1);
/// The most characters of the last part of a name.
const MAX_WHAT: usize = 40;

/// A file that was written.
#[derive(Debug)]
struct Written {
    path: PathBuf,
    /// `None` if it is not known. Such a file is not removed.
    stamp: Option<FileStamp>,
}

/// The files that were written so far and are kept.
#[derive(Debug)]
pub(crate) struct KeptFiles {
    directory: PathBuf,
    prefix: String,
    most: usize,
    /// The oldest first.
    written: VecDeque<Written>,
}

impl KeptFiles {
    /// Files in this directory whose names begin with `prefix`. Creates the directory, for this
    /// user alone, if it does not exist. At least one file is kept.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn in_directory(directory: &Path, prefix: &str, most: usize) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            prefix: prefix.to_owned(),
            most: most.max(1),
            written: VecDeque::new(),
        })
    }

    /// The path of a new file: the time in milliseconds since the Unix epoch, so that files sort by
    /// time, then the process id, a number, and `what`.
    pub(crate) fn new_path(&self, at: UnixNs, what: &str) -> PathBuf {
        self.directory.join(file_name(&self.prefix, at, what))
    }

    /// Notes that a file was written, and removes the oldest ones.
    pub(crate) fn keep(&mut self, path: PathBuf) {
        let stamp = stamp_of(&path);
        self.written.push_back(Written { path, stamp });
        while self.written.len() > self.most {
            if let Some(oldest) = self.written.pop_front() {
                remove(&oldest);
            }
        }
    }

    /// The kept files, the oldest first.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let paths = self.written.iter();
        paths.map(|written| written.path.clone()).collect()
    }
}

fn remove(written: &Written) {
    if written.stamp.is_some() && stamp_of(&written.path) == written.stamp {
        let _ = fs::remove_file(&written.path); // an error: it stays
    }
}

fn stamp_of(path: &Path) -> Option<FileStamp> {
    let about = fs::symlink_metadata(path).ok()?;
    Some(FileStamp::of(&about))
}

fn file_name(prefix: &str, at: UnixNs, what: &str) -> String {
    let date = at.0 / 1_000_000;
    let pid = std::process::id();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{date}-{pid}-{number:04}-{}.json.gz", plain(what))
}

/// Replaces the characters that a file name may not contain.
fn plain(name: &str) -> String {
    let letter = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '-',
    };
    name.chars().take(MAX_WHAT).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: UnixNs = UnixNs(1_700_000_000_123_000_000);

    #[test]
    fn a5_file_names_are_unique_even_for_equal_alerts() {
        let name = || file_name("alert", TIME, "a/b");
        let first = name();
        let second = name();
        assert_ne!(first, second);
        assert!(
            first.starts_with("alert-1700000000123-") && first.ends_with("-a-b.json.gz"),
            "{first}"
        );
        assert!(first.contains(&std::process::id().to_string()), "{first}");
    }

    #[test]
    fn only_the_newest_files_are_kept_and_only_own_files_as_they_were_written_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = KeptFiles::in_directory(directory.path(), "capture", 2).unwrap();
        let foreign = directory.path().join("capture-1-1-0001-flag.json.gz");
        fs::write(&foreign, "of another program").unwrap();
        let mut write = |text: &str| {
            let path = files.new_path(TIME, "flag");
            fs::write(&path, text).unwrap();
            files.keep(path.clone());
            (path, files.paths())
        };
        let changed = write("the first").0;
        fs::write(&changed, "something else by the user").unwrap();
        let second = write("the second").0;
        let third = write("the third").0;
        assert!(changed.exists(), "it is not as it was written");
        let (fourth, kept) = write("the fourth");
        assert_eq!(kept, [third.clone(), fourth.clone()]);
        assert!(!second.exists(), "it is one too many");
        assert!(third.exists() && fourth.exists() && foreign.exists());
    }
}
