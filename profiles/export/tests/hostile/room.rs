//! A directory for the files of a test or fuzz target. It is in memory if possible, because
//! completing a file on a disk takes longer than all other work.
//!
//! Used by `exported` and `imported`, which empty it before each use.

use std::path::{Path, PathBuf};

/// The directory. It is removed on drop.
pub(crate) struct Room(tempfile::TempDir);

impl Room {
    /// Creates an empty directory.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let made = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Self(made.expect("a directory"))
    }

    /// The path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The number of files and directories in the directory.
    pub(crate) fn count(&self) -> usize {
        std::fs::read_dir(self.0.path())
            .expect("the directory")
            .count()
    }

    /// Removes all files and directories in the directory.
    pub(crate) fn clear(&self) {
        for entry in std::fs::read_dir(self.0.path())
            .expect("the directory")
            .flatten()
        {
            let path = entry.path();
            let removed = if path.is_dir() {
                std::fs::remove_dir_all(&path)
            } else {
                std::fs::remove_file(&path)
            };
            removed.expect("a removable file");
        }
    }
}
