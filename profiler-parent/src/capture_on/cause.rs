//! The cause of a capture, and what the application learns of the capture.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use profiler_core::ids::ProcessId;

use crate::alerts::Alert;
use crate::capture::{CaptureError, CaptureReport};
use crate::process_table::{Deadlock, ProcessDeath};

/// The sign that has caused a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaptureCause {
    /// A [`CaptureFlag`](super::CaptureFlag) was raised.
    Flag,
    /// A signal with this number has arrived.
    Signal(i32),
    /// This file has appeared or was changed.
    File(PathBuf),
    /// A group was too slow: the worst alert of a collection.
    Alert(Box<Alert>),
    /// Threads wait for each other.
    Deadlock(Deadlock),
    /// A process has ended.
    Death(ProcessDeath),
    /// A process uses more memory than the line.
    MemoryOfProcess {
        /// The process.
        process: ProcessId,
        /// Its name in the profile.
        name: String,
        /// Its resident memory in bytes.
        bytes: u64,
    },
    /// All processes together use more memory than the line.
    MemoryOfAll {
        /// The sum of their resident memory in bytes.
        bytes: u64,
    },
}

impl CaptureCause {
    /// The last part of the name of the file.
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Signal(_) => "signal",
            Self::File(_) => "file",
            Self::Alert(_) => "alert",
            Self::Deadlock(_) => "deadlock",
            Self::Death(_) => "death",
            Self::MemoryOfProcess { .. } | Self::MemoryOfAll { .. } => "memory",
        }
    }
}

impl fmt::Display for CaptureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("the application has asked for it"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::File(path) => write!(f, "the file {} has appeared", path.display()),
            Self::Alert(alert) => {
                let ms = alert.highest_ns / 1_000_000;
                let Alert { kind, group, .. } = &**alert;
                write!(f, "the {kind} {group:?} was slow: {ms} ms")
            }
            Self::Deadlock(deadlock) => write!(f, "deadlock: {deadlock}"),
            Self::Death(ProcessDeath {
                process, name, why, ..
            }) => write!(f, "{name} ({process}) {why}"),
            Self::MemoryOfProcess {
                process,
                name,
                bytes,
            } => write!(f, "{name} ({process}) uses {bytes} bytes of memory"),
            Self::MemoryOfAll { bytes } => {
                write!(f, "the processes use {bytes} bytes of memory")
            }
        }
    }
}

/// A capture on a sign that has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaptureNotice {
    /// The sign.
    pub cause: CaptureCause,
    /// The profile, or why there is none.
    pub outcome: Result<CaptureReport, Arc<CaptureError>>,
}
