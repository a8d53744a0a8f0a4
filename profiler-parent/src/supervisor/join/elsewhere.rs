//! Processes that other sessions record: a program below this session has started a session of its
//! own, and reports the processes that it records. Linux.
//!
//! Used by the join thread. What identifies such a process is the claim of the other session, which
//! knows this session's token. Invariants: a process that records here keeps its entry; the
//! processes that are watched are limited ([`Limits`]), and the further ones are listed without
//! their end.

use ipc_protocol::message::RecordedElsewhere;
use profiler_core::ids::{PoolId, ProcessId, ProcessStart};
use profiler_core::internal::pool;
use profiler_core::time::Timestamp;

use super::admission::Admission;
use super::limits::Limits;
use crate::process_table::{EarlierLife, ElsewhereProcess, ProcessState};
use crate::supervisor::SupervisorEvent;
use crate::supervisor::outer::Recorded;
use crate::sys::{facts_of, is_running, open_process};

impl Admission {
    /// Lists a process that another session records, until it ends. Tells the session around this
    /// one, too.
    pub(super) fn list_elsewhere(&self, process: &RecordedElsewhere) {
        let Ok(key) = pool::new_id() else { return };
        let RecordedElsewhere { pid, start, .. } = *process;
        let facts = facts_of(pid).filter(|facts| facts.start == start);
        let image = facts.and_then(|facts| facts.image);
        let processes = &self.context.processes;
        let earlier = processes.earlier_life(pid, image);
        match earlier {
            None => {}
            Some(EarlierLife::Records) => return,
            Some(EarlierLife::Over(key)) => self.supervisor.send(SupervisorEvent::Executed { key }),
        }
        let may_watch = processes.can_list_refused(pid, Limits::now().refused);
        if processes.list_elsewhere(key, entry_of(process), earlier.is_some()) {
            self.watch_elsewhere(key, pid, start, may_watch);
            self.context.tell_outer(Recorded {
                name: &process.name,
                pid,
                parent: known(process.parent),
                session: process.session,
            });
        }
    }

    /// Watches a process that is listed, if it may be watched.
    fn watch_elsewhere(&self, key: PoolId, pid: ProcessId, start: ProcessStart, may_watch: bool) {
        let watcher = self.supervisor.watcher();
        let opened = open_process(pid, start).filter(|_| may_watch);
        let watched = opened.map(|process| watcher.watch_other(key, process, pid, start));
        if matches!(watched, Some(Ok(()))) {
            return;
        }
        self.context.processes.change(key, |process| {
            process.state = ProcessState::Exited(None);
            process.died = (!is_running(pid, start)).then(Timestamp::now);
        });
        self.context.processes.note_empty(key);
    }
}

fn entry_of(process: &RecordedElsewhere) -> ElsewhereProcess {
    ElsewhereProcess {
        name: Some(process.name.clone())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "process".to_owned()),
        pid: process.pid,
        parent: known(process.parent),
        session: process.session,
    }
}

/// The number of a process; `None` if it is not known.
fn known(pid: ProcessId) -> Option<ProcessId> {
    Some(pid).filter(|pid| pid.get() != 0)
}
