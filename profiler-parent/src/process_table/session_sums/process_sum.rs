//! The sums of all processes of one name, and the rule for names.
//!
//! Made of the entries of the process table and of entry counts.

use std::sync::Arc;

use profiler_core::session::{DropReason, EntryCounts};

use super::bounded::{Sum, SumKey};
use crate::gather::verdict::Why;
use crate::process_table::{ProcessState, Remains, TrackedProcess};

/// The name of the sum of all further names.
pub const OTHER: &str = "other";
/// The longest name, in bytes. Longer ones are cut.
const MAX_BYTES: usize = 256;

/// A name as it is shown: limited in length, and without control characters other than the end of a
/// line. Names that are then equal are the same name.
pub(crate) fn plain_name(name: &str) -> Arc<str> {
    let end = name.floor_char_boundary(MAX_BYTES);
    let name = name.get(..end).unwrap_or_default();
    if !name.contains(is_unfit) {
        return name.into();
    }
    name.replace(is_unfit, "\u{fffd}").into()
}

fn is_unfit(letter: char) -> bool {
    letter.is_control() && letter != '\n'
}

/// The name of processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessName(pub Arc<str>);

impl ProcessName {
    /// The key of a process of this name.
    pub fn new(name: &str) -> Self {
        Self(plain_name(name))
    }

    /// The key of all further names.
    pub fn other() -> Self {
        Self(OTHER.into())
    }
}

impl SumKey for ProcessName {
    fn is_other(&self) -> bool {
        &*self.0 == OTHER
    }
}

/// How a process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    /// With exit code 0.
    Exited,
    /// With another exit code.
    Failed,
    /// By a signal that requests its end.
    Stopped,
    /// By another signal that is not about an error of its own, such as `SIGKILL`.
    Killed,
    /// By a signal about an error of its own.
    Crashed,
    /// Of a panic, or right after one.
    Panicked,
    /// It executes another program, or records itself: the data since then is that of another
    /// process.
    Executed,
    /// In a way that is not known.
    Unknown,
}

impl ProcessEnd {
    /// The number of ways.
    const COUNT: usize = 8;

    /// All ways, each with its name.
    pub const ALL: [(Self, &'static str); Self::COUNT] = [
        (Self::Exited, "exited"),
        (Self::Failed, "failed"),
        (Self::Stopped, "stopped"),
        (Self::Killed, "killed"),
        (Self::Crashed, "crashed"),
        (Self::Panicked, "panicked"),
        (Self::Executed, "executed"),
        (Self::Unknown, "unknown"),
    ];

    /// How a process has ended that has started; `None` if it has not ended.
    fn of(process: &TrackedProcess) -> Option<Self> {
        if process.has_executed {
            return Some(Self::Executed); // whatever ends the program that it executes
        }
        match &process.state {
            ProcessState::Executed => Some(Self::Executed),
            ProcessState::Exited(status) => Some(Self::of_verdict(&process.why_ended(*status))),
            _ => None,
        }
    }

    fn of_verdict(why: &Why) -> Self {
        match why {
            Why::Exited { status: 0 } => Self::Exited,
            Why::Exited { .. } => Self::Failed,
            Why::Stopped { status } if is_request(status) => Self::Stopped,
            Why::Stopped { .. } => Self::Killed,
            Why::Crashed { .. } => Self::Crashed,
            Why::CrashRecorded { ended, .. } => match **ended {
                Why::Crashed { .. } => Self::Crashed,
                _ => Self::Unknown,
            },
            Why::Panicked { .. } => Self::Panicked,
            Why::Executed | Why::RecordsItself => Self::Executed,
            _ => Self::Unknown,
        }
    }
}

/// Whether the words of a signal are those of one that requests an orderly end.
fn is_request(status: &str) -> bool {
    ["SIGHUP", "SIGINT", "SIGTERM"]
        .iter()
        .any(|name| status.contains(name))
}

/// What the processes of one name have done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSum {
    /// Processes that have connected, or have ended.
    pub starts: u64,
    /// Those that have ended, in the order of [`ProcessEnd::ALL`].
    pub ends: [u64; ProcessEnd::COUNT],
    /// Entries, including lost ones.
    pub recorded: u64,
    /// Entries whose chunk was destroyed for newer ones.
    pub evicted: u64,
    /// Entries that were never written, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::COUNT],
    /// Entries that were being written when their process ended.
    pub unfinished: u64,
}

impl ProcessSum {
    /// The start and the end of a listed process.
    pub(crate) fn of_life(process: &TrackedProcess) -> Self {
        let mut sum = Self::default();
        if !has_started(process) {
            return sum;
        }
        sum.starts = 1;
        let end = ProcessEnd::of(process);
        for (count, (way, _)) in sum.ends.iter_mut().zip(ProcessEnd::ALL) {
            *count = u64::from(end == Some(way));
        }
        sum
    }

    /// The entries of a process that has ended.
    pub(crate) fn of_counts(counts: &EntryCounts) -> Self {
        Self {
            unfinished: counts.unfinished,
            ..Self::of_present_counts(counts)
        }
    }

    /// The entries of a process that may run. What it is writing now is not lost.
    pub(crate) fn of_present_counts(counts: &EntryCounts) -> Self {
        Self {
            recorded: counts.recorded(),
            evicted: counts.evicted,
            dropped: DropReason::ALL.map(|reason| counts.dropped.of(reason)),
            ..Self::default()
        }
    }
}

/// Whether a process has connected or ended, and is not one that does not record. Its name is final
/// then.
pub(crate) fn has_started(process: &TrackedProcess) -> bool {
    let is_here = process.said_hello || process.state == ProcessState::Parent || process.is_over();
    is_here && process.cannot_record.is_none() && !matches!(process.remains, Remains::Unprofiled(_))
}

impl Sum for ProcessSum {
    fn combine(&mut self, other: &Self, with: fn(u64, u64) -> u64) {
        let each = |one: &mut u64, other: u64| *one = with(*one, other);
        each(&mut self.starts, other.starts);
        let ends = self.ends.iter_mut().zip(other.ends);
        ends.for_each(|(one, other)| each(one, other));
        each(&mut self.recorded, other.recorded);
        each(&mut self.evicted, other.evicted);
        let dropped = self.dropped.iter_mut().zip(other.dropped);
        dropped.for_each(|(one, other)| each(one, other));
        each(&mut self.unfinished, other.unfinished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_limited_and_without_control_characters() {
        assert_eq!(&*plain_name("a \"b\"\\\nc"), "a \"b\"\\\nc");
        assert_eq!(&*plain_name("a\0b\x1b"), "a\u{fffd}b\u{fffd}");
        assert_eq!(plain_name(&"é".repeat(200)).len(), MAX_BYTES);
    }

    #[test]
    fn what_a_process_is_writing_is_lost_only_if_it_has_ended() {
        let counts = EntryCounts {
            delivered: 5,
            unfinished: 1,
            ..EntryCounts::default()
        };
        let (running, ended) = (
            ProcessSum::of_present_counts(&counts),
            ProcessSum::of_counts(&counts),
        );
        assert_eq!((running.recorded, running.unfinished), (6, 0));
        assert_eq!((ended.recorded, ended.unfinished), (6, 1));
    }
}
