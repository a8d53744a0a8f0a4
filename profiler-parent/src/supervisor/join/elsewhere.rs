//! Processes that other sessions record: a program below this session has started a session of its
//! own, and reports the processes that it records. Linux.
//!
//! Used by the join thread. What identifies such a process is the claim of the other session, which
//! knows this session's token. Invariants: a process that records here keeps its entry, unless the
//! system shows that it executes another program; the processes that are watched are limited
//! ([`Limits`]), and the further ones are listed without their end.

use ipc_protocol::message::RecordedElsewhere;
use profiler_core::ids::{PoolId, ProcessId, ProcessStart};
use profiler_core::internal::pool;
use profiler_core::internal::sys::open_process;
use profiler_core::time::Timestamp;

use super::admission::Admission;
use super::limits::Limits;
use crate::process_table::{EarlierLife, ElsewhereProcess};
use crate::supervisor::SupervisorEvent;
#[cfg(observing)]
use crate::supervisor::observed::ObservedEvent;
use crate::supervisor::outer::Recorded;
use crate::sys::{facts_of, is_running};

impl Admission {
    /// Lists a process that another session records, until it ends. Tells the session around this
    /// one, too.
    pub(super) fn list_elsewhere(&self, process: &RecordedElsewhere) {
        let Ok(key) = pool::new_id() else { return };
        let RecordedElsewhere { pid, start, .. } = *process;
        let facts = facts_of(pid).filter(|facts| facts.start == start);
        let image = facts.and_then(|facts| facts.image);
        let processes = &self.context.processes;
        let replaced = match processes.earlier_life(pid, image) {
            Some(EarlierLife::Over(key)) => Some(key),
            Some(EarlierLife::Records | EarlierLife::Unclear { .. }) => return,
            None => None,
        };
        if let Some(key) = replaced {
            self.supervisor.send(SupervisorEvent::Executed { key });
        }
        #[cfg(observing)]
        self.supervisor
            .send(SupervisorEvent::Observed(ObservedEvent::RecordsItself {
                pid,
            }));
        let may_watch = processes.can_list_refused(pid, start, Limits::now().refused);
        let entry = entry_of(process, facts.is_some());
        if processes.list_elsewhere(key, entry, replaced.is_some()) {
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
        let is_watched = may_watch
            && open_process(pid, start)
                .and_then(|process| self.watch(key, process, pid, start))
                .is_ok();
        if is_watched {
            return;
        }
        let died = (!is_running(pid, start)).then(Timestamp::now);
        self.context.processes.list_without_end(key, died);
    }
}

fn entry_of(process: &RecordedElsewhere, runs: bool) -> ElsewhereProcess {
    ElsewhereProcess {
        start: process.start,
        runs,
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
