//! Files of the program that the profiler opens briefly: its executable and its libraries, for
//! symbols.
//!
//! Closing any descriptor of a file releases all POSIX locks (`fcntl`) that the process holds on
//! that file, also those taken through other descriptors. A program that locks its own executable,
//! to run only once, would lose that lock in a capture. Invariants: a descriptor of a file on which
//! the process holds such a lock stays open until the process ends, and is reused when the file is
//! needed again. A lock that the program takes in the microseconds between the check and the close
//! can still be lost.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::FileIdentity;
use super::imp::may_release_lock;
use super::renewable::Renewable;

type Kept = Vec<(FileIdentity, Arc<File>)>;

/// Descriptors that may not be closed.
static KEPT: Renewable<Mutex<Kept>> = Renewable::new(Mutex::new(Vec::new()));

/// In a forked child that begins anew: forgets the list. The descriptors stay open.
pub(crate) fn forget_parent() {
    KEPT.renew(Mutex::new(Vec::new()));
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of the program, open for reading. Has a position of its own.
#[derive(Debug)]
pub struct ForeignFile {
    file: Arc<File>,
    at: u64,
}

impl ForeignFile {
    /// The kept descriptor of this file, if an earlier one could not be closed. Call this before
    /// opening the file again.
    pub fn kept(identity: FileIdentity) -> Option<Self> {
        let file = kept()
            .iter()
            .find(|(known, _)| *known == identity)
            .map(|(_, file)| Arc::clone(file))?;
        let is_the_same =
            FileIdentity::of_number(file.as_raw_fd()).is_ok_and(|now| now == identity);
        is_the_same.then_some(Self { file, at: 0 })
    }
}

impl From<File> for ForeignFile {
    fn from(file: File) -> Self {
        Self {
            file: Arc::new(file),
            at: 0,
        }
    }
}

impl Read for ForeignFile {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(room, self.at)?;
        self.at = self.at.saturating_add(u64::try_from(got).unwrap_or(0));
        Ok(got)
    }
}

impl Seek for ForeignFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.metadata()?.len().checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

impl Drop for ForeignFile {
    fn drop(&mut self) {
        let is_last = Arc::strong_count(&self.file) == 1; // a kept file has a second reference
        if is_last && may_release_lock(self.file.as_raw_fd()) {
            let identity = FileIdentity::of_number(self.file.as_raw_fd());
            kept().extend(
                identity
                    .ok()
                    .map(|identity| (identity, Arc::clone(&self.file))),
            );
        }
    }
}
