//! The walk through the directory tree.

use std::fs;
use std::path::{Path, PathBuf};

use profiler_parent::core::marker::{MarkerOptions, category};
use profiler_parent::{scope, text_marker};

use crate::frames::MAX_PATH_BYTES;

/// Directories that contain copies and build results, not sources.
const SKIPPED: [&str; 3] = [".git", "target", "node_modules"];

/// Passes the path of every file below `root`, relative to `root`, to `found`. Symbolic links are
/// not followed. Returns the paths that could not be read or are too long.
pub(crate) fn walk(root: &Path, mut found: impl FnMut(PathBuf)) -> Vec<PathBuf> {
    let _scope = scope!("walk", &category::IO);
    let mut directories = vec![PathBuf::new()];
    let mut unread = Vec::new();
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(root.join(&directory)) else {
            unread.push(directory);
            continue;
        };
        for entry in entries.flatten() {
            let path = directory.join(entry.file_name());
            let kind = entry.file_type();
            if path.as_os_str().len() > MAX_PATH_BYTES {
                unread.push(path);
            } else if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                if !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                    directories.push(path);
                }
            } else if kind.is_ok_and(|kind| kind.is_file()) {
                found(path);
            }
        }
    }
    note(&unread);
    unread
}

fn note(unread: &[PathBuf]) {
    for path in unread {
        let path = path.to_string_lossy();
        text_marker!(
            "cannot look into",
            &category::IO,
            MarkerOptions::default(),
            &path
        );
    }
}
