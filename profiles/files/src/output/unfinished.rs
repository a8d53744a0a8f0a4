//! The temporary files of all profiles that this process writes, so that they can be removed when
//! it ends early.
//!
//! Used by [`super::ProfileFile`]. Invariant: a file is created and given its final name only
//! under the lock, so [`remove_unfinished`] finds every temporary file, and none is created after
//! it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

static FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn files() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entry of a temporary file in the list.
#[derive(Debug)]
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    /// Creates a file, and adds it to the list.
    pub(super) fn create(
        create: impl FnOnce() -> io::Result<NamedTempFile<File>>,
    ) -> io::Result<(NamedTempFile<File>, Self)> {
        let mut files = files();
        let file = create()?;
        let path = file.path().to_owned();
        files.insert(path.clone());
        Ok((file, Self(path)))
    }

    /// Gives the file its final name, and removes it from the list.
    ///
    /// # Errors
    /// The error of `persist`, which has removed the file then.
    pub(super) fn finish<T>(self, persist: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let files = files();
        let persisted = persist();
        drop(files);
        persisted
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        files().remove(&self.0);
    }
}

/// Removes the temporary files of all profiles that this process writes. Afterwards no profile can
/// be begun or completed: a thread that tries waits forever. Call this immediately before the
/// process ends because of a signal, and not in a signal handler.
pub fn remove_unfinished() {
    let files = files();
    for file in &*files {
        let _ = std::fs::remove_file(file);
    }
    std::mem::forget(files);
}
