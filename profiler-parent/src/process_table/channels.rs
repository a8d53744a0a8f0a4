//! What the channel of a process brings: its hello, its end, and the figures of its memory.
//!
//! Part of the [`ProcessTable`]. Used by the supervisor's thread and by spawning. Invariant: a
//! process whose recording has ended never becomes connected again.

use std::sync::{Arc, Weak};

use ipc_protocol::message::Hello;
use ipc_protocol::transport::listener::CancelHandle;
use profiler_core::ids::{PoolId, ProcessId};
use profiler_generated_code::ProcessFiles;
use profiler_sys::OwnFile;

use super::tracked_process::Handing;
use super::{ProcessState, ProcessTable, Remains, TrackedProcess};
use crate::controller::ProcessFigures;
use crate::sys::{ProcessFacts, ProgramImage, facts_of};

impl ProcessTable {
    /// Notes the hello of a process. `files` and `facts` are what the system says about it. Returns
    /// whether its recording goes on.
    pub(crate) fn note_hello(
        &self,
        key: PoolId,
        hello: &Hello,
        files: Option<Arc<ProcessFiles>>,
        facts: Option<ProcessFacts>,
    ) -> bool {
        let lives = self.change(key, |process| {
            process.files = files;
            process.greet(hello, facts)
        });
        lives == Some(true)
    }

    /// Notes the memory of the file into which an observed program writes.
    #[cfg(observing)]
    pub(crate) fn set_ring_bytes(&self, key: PoolId, bytes: u64) {
        self.change(key, |process| process.ring_bytes = bytes);
    }

    /// Whether the reader of observed programs may write the pool of this process: its program is
    /// observed and has not ended, or the process was spawned without resources, is not observed
    /// and has not joined.
    #[cfg(observing)]
    pub(crate) fn may_be_observed(&self, key: PoolId) -> bool {
        let may_be = |process: &TrackedProcess| {
            process.awaits_program() || process.is_observed && !process.is_over()
        };
        self.lock().get(&key).is_some_and(may_be)
    }

    /// The numbers of the processes that have not ended.
    #[cfg(naming_waits)]
    pub(crate) fn running(&self) -> Vec<u32> {
        let all = self.lock();
        let running = all.values().filter(|process| !process.is_over());
        running.map(|process| process.pid.get()).collect()
    }

    /// The name of the process that has this number and has not ended.
    #[cfg(naming_waits)]
    pub(crate) fn name_of_running(&self, pid: ProcessId) -> Option<String> {
        let all = self.lock();
        let mut found = all.values().filter(|process| process.pid == pid);
        found
            .find(|process| !process.is_over())
            .map(|process| process.name.clone())
    }

    /// Notes where a process runs, for the names of its generated code, and whether it was forked
    /// and has executed no program since.
    #[cfg(observing)]
    pub(crate) fn set_files(&self, key: PoolId, files: Option<Arc<ProcessFiles>>, is_fork: bool) {
        self.change(key, |process| {
            process.files = files;
            process.may_be_fork = is_fork;
        });
    }

    /// Makes a process with this number that was spawned without resources an observed one, if
    /// there is one that is neither observed nor has joined. This session writes its pool, of which
    /// no other process has a descriptor.
    #[cfg(observing)]
    pub(crate) fn observe_spawned(
        &self,
        pid: ProcessId,
        parent: Option<ProcessId>,
        program: &str,
    ) -> Option<(PoolId, Arc<OwnFile>)> {
        self.claim_spawned(pid, parent, |process| {
            process.said_hello = true;
            process.is_observed = true;
            process.state = ProcessState::Connected;
            process.program = Some(program.to_owned());
            process.take_program_name();
        })
    }

    /// Undoes [`Self::observe_spawned`]. Called if the pool cannot be written at present.
    #[cfg(observing)]
    pub(crate) fn give_back_spawned(&self, key: PoolId) {
        self.change(key, |process| {
            process.said_hello = false;
            process.is_observed = false;
            process.handing = Handing::Later;
            self.awaiting.insert(process.pid);
            if !process.is_over() {
                process.state = ProcessState::Starting;
            }
        });
    }

    /// Lets a process with this number join that was spawned without resources, if there is one
    /// that is neither observed nor has joined. Its pool is handed to it then.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn let_spawned_join(
        &self,
        pid: ProcessId,
        image: Option<ProgramImage>,
    ) -> Option<(PoolId, Arc<OwnFile>)> {
        let parent = facts_of(pid).map(|facts| facts.parent);
        self.claim_spawned(pid, parent, |process| {
            process.image = image;
            process.is_trusted = false;
        })
    }

    fn claim_spawned(
        &self,
        pid: ProcessId,
        #[cfg_attr(not(observing), allow(unused_variables))] parent: Option<ProcessId>,
        change: impl FnOnce(&mut TrackedProcess),
    ) -> Option<(PoolId, Arc<OwnFile>)> {
        #[cfg(observing)]
        self.await_spawned(pid, parent);
        if !self.awaiting.contains(pid) {
            return None;
        }
        let mut all = self.lock();
        let mut waiting = all.iter_mut();
        let (key, process) =
            waiting.find(|(_, process)| process.pid == pid && process.awaits_program())?;
        let Remains::Pool(pool) = &process.remains else {
            return None;
        };
        let claimed = (*key, Arc::clone(pool));
        process.handing = Handing::Claimed;
        change(process);
        self.awaiting.take(pid);
        Some(claimed)
    }

    /// Notes the channel over which a process will communicate.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn set_channel(&self, key: PoolId, abandon: CancelHandle) {
        self.change(key, |process| process.abandon = Some(abandon));
    }

    /// Notes that the channel of a process has closed, for this reason. The first reason is the
    /// cause; later ones are its consequences.
    pub(crate) fn note_disconnect(&self, key: PoolId, why: &str) {
        self.change(key, |process| {
            if !process.is_over() && !process.has_hung_up() {
                process.state = ProcessState::Disconnected(why.to_owned());
            }
        });
    }

    /// Ends the wait for the hello of a process, or closes its channel.
    pub(crate) fn hang_up_one(&self, key: PoolId) {
        self.change(key, |process| process.hang_up());
    }

    /// Ends the receive threads of all children at the end of the session.
    pub(crate) fn hang_up(&self) {
        for process in self.lock().values() {
            process.hang_up();
        }
    }

    /// Whether a process has joined by itself, and its channel has closed.
    pub(crate) fn has_joined_and_left(&self, key: PoolId) -> bool {
        let has_left = |process: &TrackedProcess| process.has_joined && process.has_hung_up();
        self.lock().get(&key).is_some_and(has_left)
    }

    /// Whether a process is trusted. `None` if it is not in the table.
    pub(crate) fn is_trusted(&self, key: PoolId) -> Option<bool> {
        let all = self.lock();
        Some(all.get(&key)?.is_trusted)
    }

    /// The number of a process that may get the names of other processes. `None` for a child of
    /// `Session::spawn_untrusted`.
    pub(crate) fn pid_that_may_learn_names(&self, key: PoolId) -> Option<ProcessId> {
        let all = self.lock();
        let process = all
            .get(&key)
            .filter(|process| !process.was_spawned_untrusted)?;
        Some(process.pid)
    }

    /// Notes the controller's new figures for the memory of processes.
    pub(crate) fn set_figures(&self, changed: impl Iterator<Item = (PoolId, ProcessFigures)>) {
        let mut all = self.lock();
        for (key, figures) in changed {
            if let Some(process) = all.get_mut(&key) {
                process.figures = Some(figures);
            }
        }
    }

    /// Notes that the application holds a handle to a process, as long as `handle` is alive.
    pub(crate) fn attach_handle(&self, key: PoolId, handle: Weak<()>) {
        self.change(key, |process| process.handle = handle);
    }

    /// The name of a process. `None` if it is not in the table.
    pub(crate) fn name_of(&self, key: PoolId) -> Option<String> {
        let all = self.lock();
        all.get(&key).map(|process| process.name.clone())
    }

    /// Names a process after the program that says hello.
    pub(crate) fn name_by_program(&self, key: PoolId) {
        self.change(key, |process| {
            process.is_named_by_program = true;
            process.take_program_name();
        });
    }
}

impl TrackedProcess {
    /// Whether it was spawned without resources, and is neither observed nor has joined.
    pub(super) fn awaits_program(&self) -> bool {
        self.state == ProcessState::Starting && self.handing == Handing::Later
    }

    /// Handles the process's hello. Returns whether its recording goes on.
    fn greet(&mut self, hello: &Hello, facts: Option<ProcessFacts>) -> bool {
        self.said_hello = true;
        self.pid = hello.pid;
        if let Some(facts) = facts.filter(|_| !self.has_joined) {
            self.start = facts.start;
        }
        // It records, whatever was known about the process that was started.
        self.cannot_record = None;
        self.recorded_by = None;
        self.program = Some(hello.name.clone()).filter(|name| !name.is_empty());
        self.take_program_name();
        let lives = !self.is_over();
        if lives {
            self.state = ProcessState::Connected;
            self.image = self.image.or(facts.and_then(|facts| facts.image));
        }
        lives
    }

    /// Gives the process the name of its program, if that was asked for and the program is known.
    fn take_program_name(&mut self) {
        if let Some(program) = self.program.clone().filter(|_| self.is_named_by_program) {
            self.name = program;
        }
    }

    /// Ends the wait for the process's hello, or closes its channel. Messages that have arrived are
    /// still handled.
    pub(super) fn hang_up(&self) {
        if let Some(abandon) = &self.abandon {
            abandon.abandon();
            abandon.hang_up();
        }
    }
}
