//! What a session holds at present, as a few numbers: for a progress line.
//!
//! Made on request. Invariant: pools are read without the lock of the table.

use profiler_core::session::EntryCounts;

use super::expired::ExpiredSum;
use super::{ProcessState, ProcessTable, Remains, TrackedProcess};

/// The processes of a session and their data, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// Processes that record now, without this one.
    pub running: u64,
    /// Processes whose recording has ended.
    pub ended: u64,
    /// Processes that are known not to record here, running or not.
    pub unprofiled: u64,
    /// Bytes that all pools occupy now.
    pub held_bytes: u64,
    /// Entries that all processes have recorded, including lost ones.
    pub recorded: u64,
    /// Entries that are lost: evicted, dropped or unfinished.
    pub lost: u64,
}

impl ProcessTable {
    /// The present numbers. Reads every pool.
    pub(crate) fn summary(&self) -> SessionSummary {
        let ExpiredSum {
            processes,
            unprofiled,
            counts,
            ..
        } = self.expired();
        let mut summary = SessionSummary {
            ended: processes,
            unprofiled,
            ..SessionSummary::default()
        };
        summary.add_entries(&counts);
        let mut all: Vec<Remains> = Vec::new();
        for process in self.lock().values().filter(|process| !process.is_left_out) {
            summary.add_process(process);
            all.push(process.remains.clone());
        }
        for remains in all {
            summary.add_entries(&remains.present_counts());
        }
        summary
    }
}

impl SessionSummary {
    fn add_process(&mut self, process: &TrackedProcess) {
        self.held_bytes = self.held_bytes.saturating_add(process.true_bytes());
        if process.state == ProcessState::Parent {
            return;
        }
        let is_unprofiled = process.cannot_record.is_some() || !process.remains.has_or_had_data();
        let count = match is_unprofiled {
            true => &mut self.unprofiled,
            false if process.is_over() => &mut self.ended,
            false => &mut self.running,
        };
        *count += 1;
    }

    fn add_entries(&mut self, counts: &EntryCounts) {
        self.recorded = self.recorded.saturating_add(counts.recorded());
        self.lost = self.lost.saturating_add(counts.lost());
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::{PoolId, ProcessId};

    use super::*;

    fn process(state: ProcessState, remains: Remains) -> TrackedProcess {
        TrackedProcess::new("p", ProcessId::new(7), state, remains)
    }

    #[test]
    fn each_process_is_counted_once_and_losses_are_added_up() {
        let counts = EntryCounts {
            delivered: 5,
            evicted: 2,
            unfinished: 1,
            ..EntryCounts::default()
        };
        let table = ProcessTable::default();
        let gone = || Remains::Expired(counts);
        let unprofiled = || Remains::Unprofiled("it is statically linked".to_owned());
        let all = [
            process(ProcessState::Parent, gone()),
            process(ProcessState::Connected, gone()),
            process(ProcessState::Executed, gone()),
            process(ProcessState::Exited(None), gone()),
            process(ProcessState::Exited(None), unprofiled()),
        ];
        for (key, process) in (1..).zip(all) {
            table.add(PoolId::new(key), process);
        }
        let expected = SessionSummary {
            running: 1,
            ended: 2,
            unprofiled: 1,
            held_bytes: 0,
            recorded: 4 * 8,
            lost: 4 * 3,
        };
        assert_eq!(table.summary(), expected);
    }
}
