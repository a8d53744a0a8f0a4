//! Open files of modules that their paths may not lead to later.
//!
//! Given to [`super::SymbolStore`] by the session, and used by [`super::locate`]: a library may be
//! removed as soon as it is loaded, or when the program ends, and a path may be no text. Invariants:
//! a file is the one that the process has loaded, so it comes before any other of its path; the
//! number of open files is limited, and so is the disk space that they occupy after their removal.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of open files.
const MAX_FILES: usize = 128;
/// The maximum sum of their lengths.
const MAX_BYTES: u64 = 2 << 30;

/// An open file.
#[derive(Debug)]
struct Kept {
    /// The path of the module in the process, as text.
    path: String,
    identity: (u64, u64),
    file: Arc<File>,
    len: u64,
}

/// The open files of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptFiles(Arc<Mutex<Vec<Kept>>>);

impl KeptFiles {
    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a file open, if there is room.
    pub(super) fn keep(&self, path: &str, file: File) {
        let Ok(about) = file.metadata() else { return };
        let identity = (about.dev(), about.ino());
        let mut all = self.lock();
        let is_known = all
            .iter()
            .any(|kept| kept.identity == identity && kept.path == path);
        let held: u64 = all.iter().map(|kept| kept.len).sum();
        let has_room = all.len() < MAX_FILES && held.saturating_add(about.len()) <= MAX_BYTES;
        if about.is_file() && !is_known && has_room {
            all.push(Kept {
                path: path.to_owned(),
                identity,
                file: Arc::new(file),
                len: about.len(),
            });
        }
    }

    /// The open files of modules with this path, the latest first.
    pub(super) fn of(&self, path: &str) -> Vec<Arc<File>> {
        let all = self.lock();
        let of_path = all.iter().rev().filter(|kept| kept.path == path);
        of_path.map(|kept| Arc::clone(&kept.file)).collect()
    }
}
