//! The processor time of processes at the end of the programs that they have replaced.
//!
//! Used by the reader's thread. A process keeps its clock when it executes another program, so the
//! time of the new program begins where that of the old one has ended. Invariants: the system
//! reuses process numbers, so a time counts only if it fits the new program; the number of entries
//! is bounded.

use std::collections::HashMap;

use profiler_core::ids::ProcessId;

/// The maximum processor time in which the system loads a program and its libraries: from the end
/// of the earlier program to the first instruction of the preloaded library. If there is no earlier
/// program, the time begins at the start of the process. A program with hundreds of libraries takes
/// 0.1 s and more.
const MAX_LOADING_NS: u64 = 1_000_000_000;
/// The maximum number of entries. The entry of a process whose next program is not observed is not
/// removed.
const MAX_ENTRIES: usize = 1 << 16;

/// The ends of the replaced programs.
#[derive(Debug, Default)]
pub(super) struct ReplacedPrograms(HashMap<ProcessId, u64>);

impl ReplacedPrograms {
    /// Notes that a process executes another program, and its processor time at that moment.
    pub(super) fn insert(&mut self, pid: ProcessId, ended_cpu_ns: Option<u64>) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.clear();
        }
        if let Some(ended) = ended_cpu_ns {
            self.0.insert(pid, ended);
        }
    }

    /// Removes a process that has ended, or whose next program gets all of its time.
    pub(super) fn remove(&mut self, pid: ProcessId) {
        self.0.remove(&pid);
    }

    /// The processor time of the process at which the time of a new program begins. `began_cpu_ns`
    /// is the processor time at the first instruction of the preloaded library in the new program.
    pub(super) fn begin(&mut self, pid: ProcessId, began_cpu_ns: u64) -> u64 {
        let ended = self.0.remove(&pid).unwrap_or(0);
        let loading = began_cpu_ns.checked_sub(ended);
        if loading.is_some_and(|loading| loading <= MAX_LOADING_NS) {
            ended
        } else {
            began_cpu_ns
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PID: ProcessId = ProcessId::new(7);

    #[test]
    fn the_time_of_a_program_begins_at_the_end_of_the_one_before() {
        let mut replaced = ReplacedPrograms::default();
        replaced.insert(PID, Some(5_000_000));
        assert_eq!(replaced.begin(PID, 6_000_000), 5_000_000);
        assert_eq!(replaced.begin(PID, 6_000_000), 0, "another process");
    }

    #[test]
    fn the_time_in_which_hundreds_of_libraries_are_loaded_is_the_programs() {
        let mut replaced = ReplacedPrograms::default();
        replaced.insert(PID, Some(1_000_000));
        assert_eq!(replaced.begin(PID, 400_000_000), 1_000_000);
        assert_eq!(replaced.begin(PID, 400_000_000), 0, "no earlier program");
    }

    #[test]
    fn the_time_of_another_process_with_the_same_number_does_not_count() {
        let mut replaced = ReplacedPrograms::default();
        replaced.insert(PID, Some(5_000_000_000));
        assert_eq!(replaced.begin(PID, 0), 0, "a forked child");
        replaced.insert(PID, Some(1));
        assert_eq!(replaced.begin(PID, 5_000_000_000), 5_000_000_000);
    }

    #[test]
    fn the_number_of_entries_is_bounded() {
        let mut replaced = ReplacedPrograms::default();
        for number in 0..=MAX_ENTRIES {
            replaced.insert(ProcessId::new(number as u32), Some(1));
        }
        assert_eq!(replaced.0.len(), 1);
    }
}
