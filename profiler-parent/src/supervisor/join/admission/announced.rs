//! The entries of processes that have announced themselves and have not asked for memory. Linux.

use ipc_protocol::message::JoinRequest;
use ipc_protocol::transport::joining::Joiner;
use profiler_core::internal::pool;

use super::super::pending::Announced;
use super::{Admission, system_name};
use crate::process_table::{BriefLife, Process, ProcessState, Remains};
use crate::sys::{ChildHandle, Reaped};

impl Admission {
    /// Lists a process that knows the session's token and has announced itself. `None` if it cannot
    /// be identified; it may ask for memory nevertheless.
    pub(in crate::supervisor::join) fn announce(
        &self,
        joiner: &mut Joiner,
        request: JoinRequest,
    ) -> Option<Announced> {
        let pid = joiner.pid()?;
        let key = pool::new_id().ok()?;
        joiner.find_process(request.start);
        let announced = Announced::new(key, &request);
        let life = BriefLife {
            lived: None,
            began_ns: request.began_ns,
        };
        let parent = Some(request.parent).filter(|parent| parent.get() != 0);
        let name = Some(request.name).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| system_name(pid));
        let entry = Process::joined(&name, pid, parent, Remains::Brief(life));
        self.context.processes.add(key, entry);
        Some(announced)
    }

    /// Notes that a process has left that has announced itself.
    pub(in crate::supervisor::join) fn left(&self, announced: &mut Announced) {
        if announced.leave() {
            let lived = Some(announced.age());
            self.context.processes.note_brief(announced.key, lived);
        }
    }

    /// Notes the end of a process that has announced itself and has left, or whose connection is
    /// closed because there are too many. If it runs, it executes another program, has closed the
    /// connection, or connects again.
    pub(in crate::supervisor::join) fn end(&self, joiner: &mut Joiner, announced: &Announced) {
        let process = joiner.take_process(announced.start);
        let handle = joiner
            .pid()
            .zip(process)
            .and_then(|(pid, process)| ChildHandle::of_other(process, pid).ok());
        let state = match handle.map(|handle| handle.state_of_other(announced.start)) {
            Some(Reaped::Running) => ProcessState::Executed,
            Some(Reaped::Ended(status)) => ProcessState::Exited(Some(status)),
            Some(Reaped::Elsewhere) | None => ProcessState::Exited(None),
        };
        self.context.processes.end_brief(announced.key, state);
    }

    /// Removes the entry of a process that has announced itself, because it asks for memory.
    pub(in crate::supervisor::join) fn forget_announced(&self, announced: &Announced) {
        self.context.processes.remove(announced.key);
    }
}
