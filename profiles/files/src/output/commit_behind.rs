//! Completes files on another thread, while the next ones are written.
//!
//! Used by exports of many files, because every file waits for the disk. Invariants: files are
//! completed in order, none after an error; the thread has ended when this is dropped.

use crossbeam_channel::{Receiver, Sender, bounded};
use profiler_sys::{QuietThread, spawn_quiet};

use super::{OutputError, ProfileFile};

/// The most files that wait to be completed.
const WAITING: usize = 4;

/// Completes files. See the [module](self).
#[derive(Debug)]
pub struct CommitBehind(Option<Committing>);

#[derive(Debug)]
struct Committing {
    files: Sender<ProfileFile>,
    thread: QuietThread<Result<(), OutputError>>,
}

impl CommitBehind {
    /// Starts the thread. If the system has none left, completes files on the calling thread.
    pub fn start() -> Self {
        let (files, written) = bounded(WAITING);
        let thread = spawn_quiet("profiler-commit", move || commit_all(&written));
        Self(thread.ok().map(|thread| Committing { files, thread }))
    }

    /// Completes a file, at once or later.
    ///
    /// # Errors
    /// The error of this file or of an earlier one.
    pub fn commit(&mut self, file: ProfileFile) -> Result<(), OutputError> {
        let Some(committing) = &self.0 else {
            return file.commit().map(drop);
        };
        match committing.files.send(file) {
            Ok(()) => Ok(()),
            // The thread has ended, because an earlier file failed.
            Err(unsent) => self
                .finish()
                .and_then(|()| unsent.into_inner().commit().map(drop)),
        }
    }

    /// Waits until all files are complete. If the thread has panicked, this panics, too, because
    /// files may be missing.
    ///
    /// # Errors
    /// The first error of a file.
    pub fn finish(&mut self) -> Result<(), OutputError> {
        let Some(Committing { files, thread }) = self.0.take() else {
            return Ok(());
        };
        drop(files);
        match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for CommitBehind {
    fn drop(&mut self) {
        if let Some(Committing { files, thread }) = self.0.take() {
            drop(files);
            drop(thread.join());
        }
    }
}

fn commit_all(files: &Receiver<ProfileFile>) -> Result<(), OutputError> {
    files.iter().try_for_each(|file| file.commit().map(drop))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn files_are_complete_after_the_end_and_none_after_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let file = |name: &str| {
            let mut file = ProfileFile::create(path(name)).unwrap();
            file.write_all(b"{}").unwrap();
            file
        };
        let mut commits = CommitBehind::start();
        commits.commit(file("one")).unwrap();
        commits.commit(file("two")).unwrap();
        commits.finish().unwrap();
        assert!(path("one").exists() && path("two").exists());
        let mut commits = CommitBehind::start();
        let (taken, later) = (file("taken"), file("later"));
        std::fs::create_dir(path("taken")).unwrap(); // the file cannot replace it
        commits.commit(taken).unwrap();
        let later = commits.commit(later);
        let ended = commits.finish();
        let error = later.and(ended).unwrap_err();
        assert_eq!(error.path, path("taken"));
        assert!(!path("later").exists());
    }
}
