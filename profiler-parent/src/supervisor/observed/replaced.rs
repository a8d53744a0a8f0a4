//! The processor time of processes at the end of the programs that they have replaced.
//!
//! Used by the reader's thread. A process keeps its clock when it executes another program, so the
//! time of the new program begins where that of the old one has ended. Invariants: the system
//! reuses process numbers, so a time counts only if it fits the new program; the number of entries
//! is bounded.

use std::collections::HashMap;

use profiler_core::ids::ProcessId;
use profiler_core::time::Timestamp;

/// The maximum processor time in which the system loads a program and its libraries: from the end
/// of the earlier program to the first instruction of the preloaded library. If there is no earlier
/// program, the time begins at the start of the process. A program with hundreds of libraries takes
/// 0.1 s and more.
const MAX_LOADING_NS: u64 = 1_000_000_000;
/// The maximum number of entries. The entry of a process whose next program is not observed is not
/// removed.
const MAX_ENTRIES: usize = 1 << 16;

/// The end of a program that its process has replaced.
#[derive(Clone, Copy, Debug)]
struct ProgramEnd {
    /// The processor time of the process at that end.
    cpu_ns: u64,
    /// The time at which the end was noted.
    noted: Timestamp,
}

/// The ends of the replaced programs.
#[derive(Debug, Default)]
pub(super) struct ReplacedPrograms(HashMap<ProcessId, ProgramEnd>);

impl ReplacedPrograms {
    /// Notes that a process executes another program, and its processor time at that moment.
    pub(super) fn insert(&mut self, pid: ProcessId, ended_cpu_ns: Option<u64>) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.clear();
        }
        if let Some(cpu_ns) = ended_cpu_ns {
            let noted = Timestamp::now();
            self.0.insert(pid, ProgramEnd { cpu_ns, noted });
        }
    }

    /// Removes a process that has ended, or whose next program gets all of its time.
    pub(super) fn remove(&mut self, pid: ProcessId) {
        self.0.remove(&pid);
    }

    /// The processor time of the process at which the time of a new program begins. `began_cpu_ns`
    /// is the processor time at the first instruction of the preloaded library in the new program.
    pub(super) fn begin(&mut self, pid: ProcessId, began_cpu_ns: u64) -> u64 {
        let ended = self.0.remove(&pid).map_or(0, |end| end.cpu_ns);
        let loading = began_cpu_ns.checked_sub(ended);
        if loading.is_some_and(|loading| loading <= MAX_LOADING_NS) {
            ended
        } else {
            began_cpu_ns
        }
    }

    /// The same for a program that is met later, in a process that began at `began`. Returns the
    /// end of the program before it, if there was one.
    pub(super) fn begin_late(
        &mut self,
        pid: ProcessId,
        began: Timestamp,
    ) -> Option<(u64, Timestamp)> {
        let end = self.0.remove(&pid)?;
        (end.noted >= began).then_some((end.cpu_ns, end.noted))
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
    fn a_program_that_is_met_late_begins_at_the_end_of_the_one_before() {
        let mut replaced = ReplacedPrograms::default();
        let before = Timestamp::now();
        replaced.insert(PID, Some(5));
        let cpu_ns = |end: Option<(u64, Timestamp)>| end.map(|(cpu_ns, _)| cpu_ns);
        assert_eq!(cpu_ns(replaced.begin_late(PID, before)), Some(5));
        assert_eq!(cpu_ns(replaced.begin_late(PID, before)), None);
        replaced.insert(PID, Some(5));
        let later = Timestamp::from_raw(Timestamp::now().raw() + 1);
        assert_eq!(
            cpu_ns(replaced.begin_late(PID, later)),
            None,
            "another process"
        );
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
