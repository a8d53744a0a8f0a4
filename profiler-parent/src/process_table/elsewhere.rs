//! Processes that another session records: those of a program below this session that has started a
//! session of its own.
//!
//! Part of the [`ProcessTable`]. Used by the thread that lets processes join, to which the other
//! session reports them. Invariant: a process that records here keeps its entry.
#![cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]

use profiler_core::ids::{PoolId, ProcessId, ProcessStart};

use super::unprofiled::is_of_another;
use super::{ProcessState, ProcessTable, Remains, TrackedProcess};

/// A process that another session records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ElsewhereProcess {
    /// Display name.
    pub(crate) name: String,
    /// Process id in the system.
    pub(crate) pid: ProcessId,
    /// When it started.
    pub(crate) start: ProcessStart,
    /// Whether a process with this number and this start runs.
    pub(crate) runs: bool,
    /// The process that started it, if it is known.
    pub(crate) parent: Option<ProcessId>,
    /// The process that has the other session.
    pub(crate) session: ProcessId,
}

impl ProcessTable {
    /// Lists a process that another session records. `key` is for its entry. `is_new_program` says
    /// that its earlier entries are those of other programs. Returns whether a new entry was made;
    /// otherwise the process had an entry without data, which now says so, or it records here.
    pub(crate) fn list_elsewhere(
        &self,
        key: PoolId,
        process: ElsewhereProcess,
        is_new_program: bool,
    ) -> bool {
        let known = match is_new_program {
            true => None,
            false => self.present_entry(&process),
        };
        match known {
            Some((_, true)) => false,
            Some((known, false)) => {
                self.change(known, |entry| mark(entry, process.session));
                false
            }
            None => {
                self.add(key, entry_of(process));
                true
            }
        }
    }

    /// The entry of the present program of a process, and whether it stays as it is: it has data,
    /// or it may be that of another process with the same number.
    fn present_entry(&self, process: &ElsewhereProcess) -> Option<(PoolId, bool)> {
        let all = self.lock();
        let mut present = all.iter().filter(|(_, entry)| {
            entry.is_process(process.pid, process.start)
                && is_of_present_program(entry)
                && !is_of_another(entry)
                && !entry.is_observed // it ends when the recorder begins
        });
        present.next().map(|(key, entry)| {
            let has_data = entry.said_hello || entry.remains.is_taken();
            let is_known = process.runs || entry.start.get() != 0;
            (*key, has_data || !is_known)
        })
    }
}

fn is_of_present_program(entry: &TrackedProcess) -> bool {
    // A process that the application has listed counts as ended, but its end was not seen.
    let is_present = entry.died.is_none() && !entry.has_executed;
    is_present && entry.state != ProcessState::Executed
}

fn entry_of(process: ElsewhereProcess) -> TrackedProcess {
    let ElsewhereProcess {
        name,
        pid,
        start,
        parent,
        session,
        ..
    } = process;
    let remains = Remains::Unprofiled(String::new());
    let mut entry = TrackedProcess::joined(&name, (pid, start), parent, remains);
    mark(&mut entry, session);
    entry
}

/// Notes that another session records a process.
fn mark(entry: &mut TrackedProcess, session: ProcessId) {
    let reason = format!("it is recorded by another session, of process {session}");
    entry.recorded_by = Some(session);
    if !entry.remains.has_or_had_data() {
        entry.remains = Remains::Unprofiled(reason.clone());
    }
    entry.cannot_record = Some(reason);
}

#[cfg(test)]
mod tests {
    use profiler_core::session::EntryCounts;

    use super::*;

    fn worker() -> ElsewhereProcess {
        ElsewhereProcess {
            name: "worker".to_owned(),
            pid: ProcessId::new(7),
            start: ProcessStart::new(5),
            runs: true,
            parent: Some(ProcessId::new(3)),
            session: ProcessId::new(3),
        }
    }

    fn known(state: ProcessState, remains: Remains) -> ProcessTable {
        let table = ProcessTable::default();
        let process = TrackedProcess::new("known", ProcessId::new(7), state, remains);
        table.add(PoolId::new(1), process);
        table
    }

    fn verdict(table: &ProcessTable, key: u128) -> Option<String> {
        let all = table.lock();
        let why = all.get(&PoolId::new(key))?.why_unable()?;
        Some(why.to_string())
    }

    #[test]
    fn an_unknown_process_gets_an_entry_that_names_the_other_session() {
        let table = ProcessTable::default();
        assert!(table.list_elsewhere(PoolId::new(2), worker(), false));
        let reports = table.reports();
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].recorded_by, Some(ProcessId::new(3)));
        let why = "recorded by another session, of process 3";
        assert_eq!(verdict(&table, 2).as_deref(), Some(why));
        assert!(!table.list_elsewhere(PoolId::new(4), worker(), false));
        assert_eq!(table.reports().len(), 1, "it is listed once");
    }

    #[test]
    fn a_process_that_records_here_keeps_its_entry() {
        let counts = EntryCounts {
            evicted: 3,
            ..EntryCounts::default()
        };
        let table = known(ProcessState::Connected, Remains::Expired(counts));
        assert!(!table.list_elsewhere(PoolId::new(2), worker(), false));
        assert_eq!(table.reports()[0].recorded_by, None);
        assert!(table.list_elsewhere(PoolId::new(2), worker(), true));
        assert_eq!(table.reports().len(), 2, "another program of the process");
    }

    #[test]
    fn a_process_that_was_observed_until_its_recorder_began_is_listed() {
        let counts = EntryCounts {
            evicted: 3,
            ..EntryCounts::default()
        };
        let table = known(ProcessState::Connected, Remains::Expired(counts));
        table.change(PoolId::new(1), |process| process.is_observed = true);
        assert!(table.list_elsewhere(PoolId::new(2), worker(), false));
        let sessions = table.reports().into_iter().map(|report| report.recorded_by);
        let sessions: Vec<Option<ProcessId>> = sessions.collect();
        assert_eq!(sessions, [None, Some(ProcessId::new(3))]);
    }

    #[test]
    fn the_entry_of_an_earlier_process_with_the_same_number_stays() {
        let table = ProcessTable::default();
        let earlier = ElsewhereProcess {
            start: ProcessStart::new(4),
            session: ProcessId::new(2),
            ..worker()
        };
        assert!(table.list_elsewhere(PoolId::new(1), earlier, false));
        assert!(table.list_elsewhere(PoolId::new(2), worker(), false));
        let sessions = table.reports().into_iter().map(|report| report.recorded_by);
        let sessions: Vec<Option<ProcessId>> = sessions.collect();
        assert_eq!(sessions, [Some(ProcessId::new(2)), Some(ProcessId::new(3))]);
    }

    #[test]
    fn a_report_on_a_process_that_does_not_run_changes_no_unknown_one() {
        let remains = Remains::Unprofiled("why".to_owned());
        let table = known(ProcessState::Starting, remains);
        let gone = ElsewhereProcess {
            runs: false,
            ..worker()
        };
        assert!(!table.list_elsewhere(PoolId::new(2), gone, false));
        assert_eq!(table.reports()[0].recorded_by, None);
        assert!(!table.list_elsewhere(PoolId::new(2), worker(), false));
        assert_eq!(table.reports()[0].recorded_by, Some(ProcessId::new(3)));
    }

    #[test]
    fn an_entry_without_data_gets_the_reason() {
        let empty = Remains::Expired(EntryCounts::default());
        let unprofiled = Remains::Unprofiled("it is statically linked".to_owned());
        for (state, remains) in [
            (ProcessState::Starting, empty),
            (ProcessState::Exited(None), unprofiled),
        ] {
            let table = known(state, remains);
            assert!(!table.list_elsewhere(PoolId::new(2), worker(), false));
            let reports = table.reports();
            assert_eq!(reports.len(), 1);
            let why = "it is recorded by another session, of process 3";
            assert_eq!(reports[0].unprofiled.as_deref(), Some(why));
        }
    }
}
