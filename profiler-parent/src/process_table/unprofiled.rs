//! Processes of which the application knows that they do not record, and why.
//!
//! Used by `profiler record`, which looks for the processes below its program that cannot load the
//! profiler. Invariant: a process that records, or that the session has refused, keeps its entry.

use profiler_core::ids::{PoolId, ProcessId, ProcessStart};

use super::{ProcessState, ProcessTable, Remains, TrackedProcess};

/// A process that does not record, for
/// [`Session::list_unprofiled`](crate::Session::list_unprofiled).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnprofiledProcess {
    /// Display name, usually the file name of its program.
    pub name: String,
    /// Process id in the system.
    pub pid: ProcessId,
    /// The process that started it, if it is known.
    pub parent: Option<ProcessId>,
    /// Why it does not record.
    pub why: String,
}

/// What is known about a process before the application says that it does not record.
enum Known {
    /// It records or has recorded, or it was refused.
    Settled,
    /// It was handed a pool that no process has attached.
    Silent(PoolId),
    /// Nothing is known about its present program.
    Nothing,
}

impl ProcessTable {
    /// Lists a process as not profiled. `key` is for its entry; `start` is when it started, if that
    /// is known. Returns `false` and changes nothing if the process records, or if another reason
    /// is known.
    pub(crate) fn list_unprofiled(
        &self,
        key: PoolId,
        process: UnprofiledProcess,
        start: ProcessStart,
    ) -> bool {
        let UnprofiledProcess {
            name,
            pid,
            parent,
            why,
        } = process;
        match self.known(pid, start) {
            Known::Settled => return false,
            Known::Silent(silent) => {
                self.change(silent, |process| process.cannot_record = Some(why));
            }
            Known::Nothing => {
                let state = ProcessState::Exited(None);
                let mut entry = TrackedProcess::new(&name, pid, state, Remains::Unprofiled(why));
                entry.start = start;
                entry.parent = parent;
                entry.is_trusted = false;
                self.add(key, entry);
            }
        }
        true
    }

    /// Whether a process is listed: it has connected or recorded, was refused, or does not record
    /// for a known reason. An earlier program of the process does not count. Memory that is
    /// attached by a process that has not connected does not count either: the process may execute
    /// another program by now. `start` is when the process started, if that is known.
    pub(crate) fn lists(&self, pid: ProcessId, start: ProcessStart) -> bool {
        let all = self.lock();
        let mut present = all
            .values()
            .filter(|process| is_present(process, pid, start));
        present.any(|process| is_decided(process) && !is_of_another(process))
    }

    /// Whether the table knows how the present program of a process is recorded: it records or has
    /// recorded for this or another session, it was refused, or it is known not to record.
    #[cfg(observing)]
    pub(crate) fn is_settled(&self, pid: ProcessId, start: ProcessStart) -> bool {
        let is_elsewhere = {
            let all = self.lock();
            let mut present = all.values().filter(|one| is_present(one, pid, start));
            present.any(|process| process.recorded_by.is_some())
        };
        is_elsewhere || matches!(self.known(pid, start), Known::Settled)
    }

    fn known(&self, pid: ProcessId, start: ProcessStart) -> Known {
        let all = self.lock();
        let mut present = all
            .iter()
            .filter(|(_, process)| is_present(process, pid, start));
        match present.find(|(_, process)| !is_of_another(process)) {
            None => Known::Nothing,
            Some((key, process)) if is_silent(process) => Known::Silent(*key),
            Some(_) => Known::Settled,
        }
    }
}

/// Whether an entry is about the present program of a process.
fn is_present(process: &TrackedProcess, pid: ProcessId, start: ProcessStart) -> bool {
    let has_executed = process.has_executed || process.state == ProcessState::Executed;
    // A program that has announced itself is another one, if it has left.
    process.is_process(pid, start) && !has_executed
}

fn is_decided(process: &TrackedProcess) -> bool {
    let has_recorded = || process.remains.counts().recorded() > 0;
    let is_unprofiled = || matches!(process.remains, Remains::Unprofiled(_));
    process.said_hello || process.cannot_record.is_some() || is_unprofiled() || has_recorded()
}

/// Whether a process below this one has attached the pool that was handed to this one.
pub(super) fn is_of_another(process: &TrackedProcess) -> bool {
    let owner = process.remains.owner();
    owner.is_some_and(|owner| owner != process.pid)
}

fn is_silent(process: &TrackedProcess) -> bool {
    !process.said_hello
        && !process.remains.is_taken()
        && process.cannot_record.is_none()
        && process.remains.has_or_had_data()
}

#[cfg(test)]
mod tests {
    use profiler_core::session::EntryCounts;

    use super::*;

    const START: ProcessStart = ProcessStart::new(5);

    fn unprofiled(pid: u32) -> UnprofiledProcess {
        UnprofiledProcess {
            name: "static".to_owned(),
            pid: ProcessId::new(pid),
            parent: None,
            why: "it is statically linked".to_owned(),
        }
    }

    fn process(state: ProcessState, recorded: u64) -> TrackedProcess {
        let counts = EntryCounts {
            evicted: recorded,
            ..EntryCounts::default()
        };
        TrackedProcess::new("known", ProcessId::new(7), state, Remains::Expired(counts))
    }

    #[test]
    fn an_unknown_process_gets_an_entry_once() {
        let table = ProcessTable::default();
        assert!(table.list_unprofiled(PoolId::new(1), unprofiled(7), START));
        assert!(!table.list_unprofiled(PoolId::new(2), unprofiled(7), START));
        assert!(table.lists(ProcessId::new(7), START));
        assert!(!table.lists(ProcessId::new(8), START));
        let reports = table.reports();
        assert_eq!(reports.len(), 1);
        assert_eq!(
            reports[0].unprofiled.as_deref(),
            Some("it is statically linked")
        );
    }

    #[test]
    fn another_process_with_the_same_number_gets_an_entry() {
        let table = ProcessTable::default();
        assert!(table.list_unprofiled(PoolId::new(1), unprofiled(7), START));
        let later = ProcessStart::new(6);
        assert!(table.list_unprofiled(PoolId::new(2), unprofiled(7), later));
        assert_eq!(table.reports().len(), 2);
    }

    #[cfg(observing)]
    #[test]
    fn a_process_that_another_session_records_is_settled_and_a_silent_one_is_not() {
        let table = ProcessTable::default();
        let pid = ProcessId::new(7);
        assert!(!table.is_settled(pid, START));
        table.add(PoolId::new(1), process(ProcessState::Starting, 0));
        assert!(!table.is_settled(pid, START));
        table.change(PoolId::new(1), |process| process.recorded_by = Some(pid));
        assert!(table.is_settled(pid, START));
    }

    #[test]
    fn a_process_that_has_recorded_keeps_its_entry() {
        let table = ProcessTable::default();
        table.add(PoolId::new(1), process(ProcessState::Connected, 3));
        assert!(!table.list_unprofiled(PoolId::new(2), unprofiled(7), START));
        assert!(table.lists(ProcessId::new(7), START));
        assert_eq!(table.reports().len(), 1);
    }

    #[test]
    fn a_process_that_never_attached_its_pool_gets_the_reason() {
        let table = ProcessTable::default();
        table.add(PoolId::new(1), process(ProcessState::Starting, 0));
        assert!(!table.lists(ProcessId::new(7), START));
        assert!(table.list_unprofiled(PoolId::new(2), unprofiled(7), START));
        let all = table.lock();
        let why = all
            .get(&PoolId::new(1))
            .and_then(TrackedProcess::why_unable);
        assert_eq!(
            why.map(|why| why.to_string()).as_deref(),
            Some("not profiled: it is statically linked")
        );
    }

    #[test]
    fn a_process_that_executed_another_program_is_listed_again() {
        let table = ProcessTable::default();
        table.add(PoolId::new(1), process(ProcessState::Executed, 3));
        assert!(table.list_unprofiled(PoolId::new(2), unprofiled(7), START));
        assert_eq!(table.reports().len(), 2);
    }
}
