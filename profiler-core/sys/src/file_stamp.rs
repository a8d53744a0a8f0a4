//! Tells a file from another one and from an earlier state of itself.
//!
//! Used where a file is looked at twice: by the cache of symbols and by the merge of profiles.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::SystemTime;

/// A stamp of a file: equal for all its names, and different after a change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileStamp {
    device: u64,
    number: u64,
    len: u64,
    changed: Option<SystemTime>,
}

impl FileStamp {
    /// The stamp of a file with this metadata.
    pub fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            number: file.ino(),
            len: file.len(),
            changed: file.modified().ok(),
        }
    }
}
