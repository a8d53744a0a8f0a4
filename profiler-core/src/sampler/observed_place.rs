//! Which program of another process is observed, and when it began.
//!
//! Made by the reader of observed programs, for `observed_waits`.

use super::observed::ObservedProcess;
use crate::ids::{ProcessId, ProcessStart};
use crate::time::Timestamp;

/// The longest time from the start of a program until the reader meets it, in nanoseconds.
const MAX_START_AGE_NS: u64 = 10_000_000_000;

/// The process that is looked at.
#[derive(Clone, Copy, Debug)]
pub struct ObservedPlace {
    /// Its number, as this process sees it.
    pub pid: ProcessId,
    /// When it began. `None` if it is not found, or this process may not inspect it: then there are
    /// no looks.
    pub start: Option<ProcessStart>,
    /// The processor time of the process when its program began, in nanoseconds.
    pub base_ns: u64,
    /// The start of the program, according to its file. Not checked.
    pub began: Timestamp,
    /// Whether the samples have the thread numbers of this process's PID namespace, as the samples
    /// that the system takes do. Otherwise they have those of the PID namespace of the observed
    /// process.
    pub is_outside: bool,
}

impl ObservedPlace {
    /// The start of the program according to its file, if that is at most [`MAX_START_AGE_NS`] ago.
    /// Otherwise the present time.
    pub(super) fn checked_start(&self, process: &ObservedProcess) -> Timestamp {
        let now = Timestamp::now();
        let longest = process.pool().ticks_in(MAX_START_AGE_NS);
        let age = now.raw().checked_sub(self.began.raw());
        let is_recent = age.is_some_and(|age| age <= longest);
        if is_recent { self.began } else { now }
    }
}
