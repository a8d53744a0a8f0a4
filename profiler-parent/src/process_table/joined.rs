//! Processes that have joined by themselves, or have asked to: how many run, which of them are
//! listed as refused, and what the end of one says about its earlier programs.
//!
//! Part of the [`ProcessTable`]. Used by the supervisor and by the thread that lets processes join.
//! Invariant: of the processes that run and do not record, a limited number is listed, each once; a
//! process that is watched has an entry that one of the two counts here contains, or is an earlier
//! program of a process.

use std::process::ExitStatus;

use profiler_core::ids::{PoolId, ProcessId, ProcessStart};
use profiler_core::time::Timestamp;

use super::{ProcessState, ProcessTable, Remains, TrackedProcess};

impl ProcessTable {
    /// Number of running processes that have joined by themselves and have a pool.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn joined(&self) -> usize {
        let all = self.lock();
        let joined = all.values().filter(|process| {
            is_running_joined(process) && matches!(process.remains, Remains::Pool(_))
        });
        joined.count()
    }

    /// Whether a process that runs and does not record can be listed: it is not listed, and fewer
    /// than `most` are.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn can_list_refused(
        &self,
        pid: ProcessId,
        start: ProcessStart,
        most: usize,
    ) -> bool {
        has_room(self.lock().values(), pid, start, most)
    }

    /// Takes the pool of a process away that has not begun to record. The process is listed as not
    /// profiled, for this reason. If it cannot be listed, its entry is removed; returns whether it
    /// was.
    pub(crate) fn unprofile(&self, key: PoolId, why: String, most: usize) -> bool {
        let mut all = self.lock();
        let Some(process) = all.get(&key) else {
            return false;
        };
        let (pid, start, is_over) = (process.pid, process.start, process.is_over());
        if !is_over && !has_room(all.values(), pid, start, most) {
            if let Some(process) = all.remove(&key) {
                self.end_life(key, &process);
            }
            return true;
        }
        drop(all);
        let has_ended = self.change(key, |process| {
            // The supervisor notes the processes without data that end later.
            let has_ended = process.is_over() && matches!(process.remains, Remains::Pool(_));
            process.remains = Remains::Unprofiled(why);
            process.dead_pool = None;
            process.abandon = None;
            process.figures = None;
            has_ended
        });
        if has_ended == Some(true) {
            self.note_empty(key);
        }
        false
    }

    /// Lists a process without its end, which is not watched. `died` is when it ended, if it has.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn list_without_end(&self, key: PoolId, died: Option<Timestamp>) {
        self.change(key, |process| {
            process.state = ProcessState::Exited(None);
            process.died = died;
        });
        self.note_empty(key);
    }

    /// The earlier programs of a process that has joined, if its end is not known.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn earlier_programs(&self, pid: ProcessId, start: ProcessStart) -> Vec<PoolId> {
        let all = self.lock();
        let earlier = all
            .iter()
            .filter(|(_, process)| is_earlier_program(process, pid, start));
        earlier.map(|(key, _)| *key).collect()
    }

    /// Notes the end of a process for its earlier programs, too: their ends are not watched.
    pub(crate) fn end_earlier_programs(&self, key: PoolId, status: Option<ExitStatus>) {
        let mut all = self.lock();
        let Some(process) = all.get(&key).filter(|process| process.has_joined) else {
            return;
        };
        let (pid, start) = (process.pid, process.start);
        if !self.executed.take(pid) {
            return; // the whole table is not read
        }
        for process in all.values_mut() {
            if is_earlier_program(process, pid, start) {
                process.state = ProcessState::Exited(status);
            }
        }
    }
}

fn is_running_joined(process: &TrackedProcess) -> bool {
    process.has_joined && !process.is_over()
}

fn is_listed_refused(process: &TrackedProcess) -> bool {
    is_running_joined(process) && matches!(process.remains, Remains::Unprofiled(_))
}

/// Whether one more process that does not record can be listed, and is not listed.
pub(super) fn has_room<'a>(
    all: impl Iterator<Item = &'a TrackedProcess>,
    pid: ProcessId,
    start: ProcessStart,
    most: usize,
) -> bool {
    let mut refused = 0;
    for process in all.filter(|process| is_listed_refused(process)) {
        refused += 1;
        if process.is_process(pid, start) {
            return false;
        }
    }
    refused < most
}

fn is_earlier_program(process: &TrackedProcess, pid: ProcessId, start: ProcessStart) -> bool {
    process.has_executed
        && process.has_joined
        && process.state == ProcessState::Executed
        && start.get() != 0
        && (process.pid, process.start) == (pid, start)
}

#[cfg(test)]
mod tests {
    use profiler_core::session::EntryCounts;

    use super::*;

    const START: ProcessStart = ProcessStart::new(5);

    fn joined(remains: Remains) -> TrackedProcess {
        TrackedProcess::joined("p", (ProcessId::new(7), START), None, remains)
    }

    fn data() -> Remains {
        Remains::Expired(EntryCounts::default())
    }

    #[test]
    fn a_process_without_data_is_listed_once_and_only_if_there_is_room() {
        let table = ProcessTable::default();
        for number in 1..4 {
            table.add(PoolId::new(number), joined(data()));
            let is_removed = table.unprofile(PoolId::new(number), "why".to_owned(), 2);
            assert_eq!(is_removed, number > 1, "{number}");
        }
        assert_eq!(table.lock().len(), 1);
        let (listed, other) = (ProcessId::new(7), ProcessId::new(8));
        assert!(!table.can_list_refused(listed, START, 2));
        assert!(
            table.can_list_refused(listed, ProcessStart::new(6), 2),
            "used again"
        );
        assert!(table.can_list_refused(other, START, 2));
        assert!(!table.can_list_refused(other, START, 1));
    }

    #[test]
    fn the_end_of_a_process_ends_its_earlier_programs() {
        let table = ProcessTable::default();
        let mut other = joined(data());
        other.start = ProcessStart::new(6);
        for (number, mut process) in (1..).zip([joined(data()), joined(data()), other]) {
            process.has_executed = number != 2;
            if process.has_executed {
                process.state = ProcessState::Executed;
                table.executed.insert(process.pid);
            }
            table.add(PoolId::new(number), process);
        }
        let earlier = table.earlier_programs(ProcessId::new(7), START);
        assert_eq!(earlier, [PoolId::new(1)]);
        table.end_earlier_programs(PoolId::new(2), None);
        let all = table.lock();
        assert_eq!(all[&PoolId::new(1)].state, ProcessState::Exited(None));
        assert_eq!(all[&PoolId::new(3)].state, ProcessState::Executed);
    }
}
