//! A directory for files of one test or fuzz target, in memory where there is such a place: completing a file on a disk costs more
//! than all else.
//!
//! Used by the laws beside it. Whoever makes one empties it each time.

use std::path::{Path, PathBuf};

/// See the head of this file. Goes with its owner.
pub(crate) struct Room(tempfile::TempDir);

impl Room {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self(made.expect("a directory"))
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Files and directories in it.
    pub(crate) fn count(&self) -> usize {
        std::fs::read_dir(self.0.path()).expect("the directory").count()
    }

    /// Takes away all that is in it.
    pub(crate) fn clear(&self) {
        for entry in std::fs::read_dir(self.0.path()).expect("the directory").flatten() {
            let path = entry.path();
            let gone =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            gone.expect("a file that can go");
        }
    }
}
