//! Merges generated recordings, and compares the contents as the reader of profiles sees them.

mod content;
mod errors;
mod generated;
mod laws;
mod whole;

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{HostShift, MergeError, MergeInput, Merged, Uncertainty, merge, merge_in, merge_with};
use profiler_files::{WorkEvent, WorkListener};
use profiler_reader::ReadError;

/// A directory with profiles.
pub(super) struct Desk(tempfile::TempDir);

impl Desk {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a profile.
    pub(super) fn put(&self, name: &str, profile: &Value) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, profile.to_string()).unwrap();
        path
    }

    /// Merges profiles that are called like their files.
    pub(super) fn merge(&self, inputs: &[&Path], to: &str) -> (PathBuf, Merged) {
        let inputs: Vec<_> = inputs.iter().map(|path| MergeInput::new(*path)).collect();
        let to = self.path(to);
        let merged = merge(&inputs, &[], &to).unwrap();
        (to, merged)
    }

    /// The files, sorted.
    pub(super) fn files(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.0.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

/// Calls `then` with the number of the pass at each read of a merge. The inputs must have the same
/// length.
pub(super) fn on_pass(inputs: u64, then: impl Fn(u64) + Send + Sync + 'static) -> WorkListener {
    WorkListener::new(move |event| {
        if let WorkEvent::Reading { bytes, of } = event {
            then(bytes.saturating_sub(1) / (of / (2 * inputs)));
        }
    })
}

pub(super) fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
