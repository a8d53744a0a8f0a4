//! Processes that are refused, and the watching of all processes that are listed. Linux.
//!
//! Invariants: a limited number of processes is listed as refused, each once; a process is watched
//! at most once with its earlier programs.

use std::io;
use std::os::fd::OwnedFd;

use ipc_protocol::message::JoinRefusal;
use ipc_protocol::transport::joining::Joiner;
use profiler_core::ids::{PoolId, ProcessId, ProcessStart};
use profiler_core::internal::pool;
use profiler_sys::OwnDescriptor;

use super::super::limits::Limits;
use super::{Admission, Applicant, FIRST_PAUSE, system_name};
use crate::process_table::{Remains, TrackedProcess};
use crate::supervisor::NOT_WAITED;
use crate::sys::{facts_of, now};

impl Admission {
    /// Refuses a process that was examined, and lists it as not profiled.
    pub(in crate::supervisor::join) fn refuse(
        &self,
        joiner: &Joiner,
        applicant: Applicant,
        why: JoinRefusal,
    ) {
        self.forget(applicant.key);
        joiner.refuse(why.clone());
        self.list(applicant, why.to_string());
    }

    /// Lists a process that has left before it got memory.
    pub(in crate::supervisor::join) fn give_up(&self, applicant: Applicant) {
        self.forget(applicant.key);
        self.list(applicant, NOT_WAITED.to_owned());
    }

    /// Refuses a process that was not examined, and lists it under the name that the system knows.
    pub(in crate::supervisor::join) fn turn_away(&self, joiner: &mut Joiner, why: JoinRefusal) {
        joiner.refuse(why.clone());
        let Some((pid, facts)) = joiner.pid().and_then(|pid| Some((pid, facts_of(pid)?))) else {
            return;
        };
        let Ok(process) = joiner.take_process(facts.start) else {
            return;
        };
        let Ok(key) = pool::new_id() else { return };
        let applicant = Applicant {
            key,
            pid,
            start: facts.start,
            parent: Some(facts.parent),
            image: None,
            name: system_name(pid),
            process,
            spawned: None,
            look: None,
            deadline: now(),
            pause: FIRST_PAUSE,
        };
        self.list(applicant, why.to_string());
    }

    /// Lists a process as not profiled, for this reason, until it ends.
    fn list(&self, applicant: Applicant, why: String) {
        let Applicant {
            key,
            pid,
            start,
            parent,
            name,
            process,
            ..
        } = applicant;
        let processes = &self.context.processes;
        if !processes.can_list_refused(pid, start, Limits::now().refused) {
            return;
        }
        let entry = TrackedProcess::joined(&name, (pid, start), parent, Remains::Unprofiled(why));
        processes.add(key, entry);
        if self.watch(key, process, pid, start).is_err() {
            processes.remove(key);
        }
    }

    /// Watches a process of the table. It takes the place of its earlier programs, of which the
    /// session then learns the end with this one.
    ///
    /// # Errors
    /// The system's error, and one if too many processes are watched.
    pub(in crate::supervisor::join) fn watch(
        &self,
        key: PoolId,
        process: OwnDescriptor<OwnedFd>,
        pid: ProcessId,
        start: ProcessStart,
    ) -> io::Result<()> {
        let watcher = self.supervisor.watcher();
        let earlier = self.context.processes.earlier_programs(pid, start);
        earlier.iter().for_each(|key| watcher.forget_other(key));
        if watcher.others() >= Limits::now().watched() {
            return Err(io::Error::other("no more processes can be watched"));
        }
        watcher.watch_other(key, process, pid, start)
    }
}
