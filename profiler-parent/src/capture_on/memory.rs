//! Memory above a line: reads the resident memory of the session's processes.
//!
//! Invariants: it is read at most once a second, and uses at most 0.3 % of a processor while that
//! takes less than 30 ms; a process is a sign when it rises above the line, and again only after it
//! has fallen below it.

use std::collections::{BTreeMap, BTreeSet};

use profiler_core::ids::{ByteLimit, ProcessId};

use super::CaptureOnError;
use super::cause::CaptureCause;
use super::watch::Signs;
use crate::process_table::ProcessTable;
use crate::session_time::{SessionNs, SessionTime};

/// The shortest time between two readings, in nanoseconds.
const SHORTEST: i64 = 1_000_000_000;
/// With many processes it is this factor times the cost of a reading.
const COST_FACTOR: i64 = 300;
/// The longest time.
const LONGEST: i64 = 10_000_000_000;

/// A line in bytes, and what must stay below it.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemoryLine {
    /// Each process.
    OfProcess(ByteLimit),
    /// The sum of all processes.
    OfAll(ByteLimit),
}

/// The resident memory of a process.
#[derive(Clone, Debug)]
struct Resident {
    process: ProcessId,
    name: String,
    bytes: u64,
}

/// Watches for memory above a line.
#[derive(Debug)]
pub(super) struct MemoryWatch {
    line: MemoryLine,
    /// The processes above the line.
    above: BTreeSet<ProcessId>,
    /// Whether the sum is above the line.
    is_sum_above: bool,
    /// When it is read again.
    due: SessionNs,
}

impl MemoryWatch {
    /// # Errors
    /// If this system does not tell how much memory a process uses.
    pub(super) fn of(line: MemoryLine) -> Result<Self, CaptureOnError> {
        let own = ProcessId::new(std::process::id());
        if crate::sys::usage(own).is_none() {
            return Err(CaptureOnError::MemoryUnknown);
        }
        Ok(Self {
            line,
            above: BTreeSet::new(),
            is_sum_above: false,
            due: SessionNs(i64::MIN),
        })
    }

    /// Reads the memory, if it is time for that, and adds the signs.
    pub(super) fn look(&mut self, processes: &ProcessTable, time: SessionTime, signs: &mut Signs) {
        let began = time.now();
        if began < self.due {
            return;
        }
        self.judge(read(processes), signs);
        let ended = time.now();
        let cost = ended.0.saturating_sub(began.0);
        let pause = cost.saturating_mul(COST_FACTOR).clamp(SHORTEST, LONGEST);
        self.due = SessionNs(ended.0.saturating_add(pause));
    }

    fn judge(&mut self, all: Vec<Resident>, signs: &mut Signs) {
        match self.line {
            MemoryLine::OfProcess(line) => self.judge_each(all, line, signs),
            MemoryLine::OfAll(line) => self.judge_sum(&all, line, signs),
        }
    }

    fn judge_each(&mut self, all: Vec<Resident>, line: ByteLimit, signs: &mut Signs) {
        let high = all.into_iter().filter(|one| one.bytes > line.get());
        let mut above = BTreeSet::new();
        for one in high {
            let is_new = above.insert(one.process) && !self.above.contains(&one.process);
            signs.add(u64::from(is_new), || CaptureCause::MemoryOfProcess {
                process: one.process,
                name: one.name,
                bytes: one.bytes,
            });
        }
        self.above = above;
    }

    fn judge_sum(&mut self, all: &[Resident], line: ByteLimit, signs: &mut Signs) {
        let each = all.iter().map(|one| one.bytes);
        let bytes = each.fold(0, u64::saturating_add);
        let is_above = bytes > line.get();
        let is_new = is_above && !self.is_sum_above;
        self.is_sum_above = is_above;
        signs.add(u64::from(is_new), || CaptureCause::MemoryOfAll { bytes });
    }
}

/// The memory of the processes that run. Each process is listed once.
fn read(processes: &ProcessTable) -> Vec<Resident> {
    let running: BTreeMap<ProcessId, String> = processes.running_names().into_iter().collect();
    let resident = running.into_iter().filter_map(|(process, name)| {
        let bytes = crate::sys::usage(process)?.resident_bytes;
        Some(Resident {
            process,
            name,
            bytes,
        })
    });
    resident.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(line: MemoryLine) -> MemoryWatch {
        MemoryWatch {
            line,
            above: BTreeSet::new(),
            is_sum_above: false,
            due: SessionNs(0),
        }
    }

    /// The processes that are signs when the processes 1, 2 and so on have this memory, or 0 for
    /// the sum.
    fn signs_of(watch: &mut MemoryWatch, bytes: &[u64]) -> Vec<u64> {
        let resident = |(number, bytes): (u32, &u64)| Resident {
            process: ProcessId::new(number),
            name: "p".to_owned(),
            bytes: *bytes,
        };
        let mut signs = Signs::default();
        watch.judge((1..).zip(bytes).map(resident).collect(), &mut signs);
        let first = signs.first.map(|cause| match cause {
            CaptureCause::MemoryOfProcess { process, .. } => u64::from(process.get()),
            _ => 0,
        });
        first.into_iter().chain(1..signs.count).collect()
    }

    #[test]
    fn a_process_is_a_sign_when_it_rises_above_the_line() {
        let mut watch = watch(MemoryLine::OfProcess(ByteLimit::new(10)));
        let none: [u64; 0] = [];
        assert_eq!(signs_of(&mut watch, &[10, 9]), none);
        assert_eq!(signs_of(&mut watch, &[11, 9]), [1]);
        assert_eq!(signs_of(&mut watch, &[12, 9]), none, "it is above already");
        assert_eq!(signs_of(&mut watch, &[12, 11]), [2]);
        assert_eq!(signs_of(&mut watch, &[10, 11]), none);
        assert_eq!(signs_of(&mut watch, &[11, 11]), [1], "once more");
    }

    #[test]
    fn the_sum_is_a_sign_when_it_rises_above_the_line() {
        let mut watch = watch(MemoryLine::OfAll(ByteLimit::new(10)));
        let none: [u64; 0] = [];
        assert_eq!(signs_of(&mut watch, &[5, 5]), none);
        assert_eq!(signs_of(&mut watch, &[5, 6]), [0]);
        assert_eq!(signs_of(&mut watch, &[5, 5, 5]), none);
        assert_eq!(signs_of(&mut watch, &[5]), none);
        assert_eq!(signs_of(&mut watch, &[5, 6]), [0]);
    }
}
