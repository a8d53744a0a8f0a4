//! The source of the samples of a program: the file that its process has made, or the system, for a
//! process without a file.
//!
//! Used by `program`, which reads both in the same way.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use profiler_core::ids::ProcessId;
use profiler_observed::file::{ObservedFile, ObservedHeader};
use profiler_observed::layout::{Ending, PAGE, SampleHead};

use super::outside::OutsideProcess;
use crate::sys::maps_file;

/// The source of samples.
#[derive(Debug)]
pub(super) enum ProgramFile {
    /// The process's own file, at this path.
    Own(PathBuf, Box<ObservedFile>),
    /// The process is observed from outside.
    Outside(Box<OutsideProcess>),
}

impl ProgramFile {
    /// The header of the file, or the same facts about a process without a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn header(&self) -> io::Result<ObservedHeader> {
        match self {
            Self::Own(_, file) => file.header(),
            Self::Outside(process) => Ok(process.header()),
        }
    }

    /// Passes all samples to `each`, with the bytes of their stacks. Returns their number.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn drain(&mut self, each: impl FnMut(&SampleHead, &[u8])) -> io::Result<usize> {
        match self {
            Self::Own(_, file) => file.drain(each),
            Self::Outside(process) => Ok(process.drain(each)),
        }
    }

    /// The number of pages that the file has been granted, in units of 16.
    pub(super) const fn granted(&self) -> u8 {
        match self {
            Self::Own(_, file) => file.granted(),
            Self::Outside(_) => 0,
        }
    }

    /// Grants more pages to the file.
    ///
    /// # Errors
    /// If the file system has no room.
    pub(super) fn grant(&mut self, more: u8) -> io::Result<()> {
        match self {
            Self::Own(_, file) => file.grant(more),
            Self::Outside(_) => Ok(()),
        }
    }

    /// The memory of the samples.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Own(_, file) => {
                ObservedFile::first_bytes() + u64::from(file.granted()) * 16 * PAGE as u64
            }
            Self::Outside(process) => process.bytes(),
        }
    }

    /// Whether the process maps its file, or may do so. The answer for a process without a file is
    /// false, so it has executed another program if its addresses have changed.
    pub(super) fn is_mapped_by(&self, pid: ProcessId) -> bool {
        match self {
            Self::Own(path, _) => {
                let file = File::open(path);
                file.is_ok_and(|file| maps_file(pid, &file) != Some(false))
            }
            Self::Outside(_) => false,
        }
    }

    /// Whether the process is observed from outside.
    pub(super) const fn is_outside(&self) -> bool {
        matches!(self, Self::Outside(_))
    }

    /// Ends the observation of a process without a file, unless it has ended. `clock_ns` is the
    /// last time that was read from the clock of the process. A process with a file has stored its
    /// end itself.
    pub(super) fn end(&mut self, ending: Ending, clock_ns: Option<u64>) {
        if let Self::Outside(process) = self {
            process.end(ending, clock_ns);
        }
    }

    /// Removes the file.
    pub(super) fn remove(&self) {
        if let Self::Own(path, _) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}
