//! The entries of processes that have announced themselves and have not asked for memory. Linux.

use ipc_protocol::message::JoinRequest;
use ipc_protocol::transport::joining::Joiner;
use profiler_core::ids::{PoolId, ProcessId, ProcessStart};
use profiler_core::internal::pool;

use super::super::limits::Limits;
use super::super::pending::Announced;
use super::{Admission, system_name};
use crate::process_table::{BriefLife, ProcessState, Remains, TrackedProcess};
use crate::sys::{ChildHandle, ProgramImage, Reaped, facts_of, is_running};

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
        // In this order: if the connection is open, the image is not that of a later program.
        let image = image_of(pid, request.start).filter(|_| joiner.is_silent());
        let announced = Announced::new(key, &request, image);
        let life = BriefLife {
            began_ns: request.began_ns,
            ..BriefLife::default()
        };
        let start = request.start;
        let parent = Some(request.parent).filter(|parent| parent.get() != 0);
        let name = Some(request.name).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| system_name(pid));
        let entry = TrackedProcess::joined(&name, (pid, start), parent, Remains::Brief(life));
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
    /// closed because there are too many. If it runs, it executes another program, or runs on
    /// without a profiler, unless it connects again.
    pub(in crate::supervisor::join) fn end(&self, joiner: &mut Joiner, announced: &Announced) {
        let Announced {
            key, start, image, ..
        } = *announced;
        let process = joiner.pid().zip(joiner.take_process(start).ok());
        let Some((pid, process)) = process else {
            return self.end_brief(key, ProcessState::Exited(None));
        };
        let Ok(handle) = ChildHandle::of_other(process, pid) else {
            return self.end_brief(key, ProcessState::Exited(None));
        };
        let state = match handle.state_of_other(start) {
            Reaped::Ended(status) => ProcessState::Exited(Some(status)),
            Reaped::Elsewhere => ProcessState::Exited(None),
            // Before Linux 6.9, a descriptor does not show a process that was reaped.
            Reaped::Running if !is_running(pid, start) => ProcessState::Exited(None),
            Reaped::Running if image.is_some() && image_of(pid, start) == image => {
                return self.note_runs_on(key, handle, pid, start);
            }
            Reaped::Running => ProcessState::Executed,
        };
        self.end_brief(key, state);
    }

    /// Lists a process as not profiled that has announced itself, has left and runs on.
    fn note_runs_on(&self, key: PoolId, handle: ChildHandle, pid: ProcessId, start: ProcessStart) {
        let processes = &self.context.processes;
        let most = Limits::now().refused;
        if processes.note_runs_on(key, most)
            && self
                .watch(key, handle.into_descriptor(), pid, start)
                .is_err()
        {
            processes.list_without_end(key, None);
        }
    }

    /// Keeps the entry of a process that has announced itself and asked, although it is not
    /// recorded: it cannot be listed in another way.
    pub(in crate::supervisor::join) fn keep_announced(&self, announced: Option<PoolId>) {
        if let Some(key) = announced {
            self.end_brief(key, ProcessState::Exited(None));
        }
    }

    fn end_brief(&self, key: PoolId, state: ProcessState) {
        self.context.processes.end_brief(key, state);
    }

    /// Removes the entries of a process that has announced itself, because it has another one now.
    pub(super) fn replace_announced(
        &self,
        announced: Option<PoolId>,
        pid: ProcessId,
        began_ns: u64,
    ) {
        let processes = &self.context.processes;
        announced.into_iter().for_each(|key| processes.remove(key));
        let watcher = self.supervisor.watcher();
        let announced = processes.forget_brief(pid, began_ns);
        announced.iter().for_each(|key| watcher.forget_other(key));
    }
}

/// The program that a process executes, if that is known.
fn image_of(pid: ProcessId, start: ProcessStart) -> Option<ProgramImage> {
    facts_of(pid)
        .filter(|facts| facts.start == start)
        .and_then(|facts| facts.image)
}
