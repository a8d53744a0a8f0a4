//! One process of a session: its state, its pool, and the controller's figures for its memory.
//!
//! Made by the supervisor and by spawning; from then on held by the
//! [`ProcessTable`](super::ProcessTable), whose lock protects it and whose methods change it.

use std::process::{Child, ExitStatus};
use std::sync::{Arc, Weak};

use ipc_protocol::transport::listener::CancelHandle;
use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::internal::reader::groups::PoolGroups;
use profiler_core::time::Timestamp;
use profiler_generated_code::ProcessFiles;

use super::Remains;
use super::observed_time::ObservedTime;
use super::report::ProcessState;
use crate::controller::ProcessFigures;
use crate::gather::panic_evidence::PanicEvidence;
use crate::gather::verdict::Why;
use crate::part_file::PartFile;
use crate::sys::ProgramImage;

/// A process of the session.
#[derive(Debug)]
pub(crate) struct TrackedProcess {
    pub(super) order: u64,
    pub(super) name: String,
    pub(super) pid: ProcessId,
    /// When it started, if that is known; otherwise 0. With the number, it identifies the process.
    pub(super) start: ProcessStart,
    pub(super) state: ProcessState,
    pub(super) remains: Remains,
    pub(super) part_file: Option<Arc<PartFile>>,
    pub(super) dead_pool: Option<DeadPool>,
    pub(super) said_hello: bool,
    /// The file name of the program that said hello.
    pub(super) program: Option<String>,
    /// Whether it is named after that program.
    pub(super) is_named_by_program: bool,
    /// The reason why its remaining data could not be read.
    pub(super) damage: Option<String>,
    /// The reason why it never attaches its pool, according to the application, or because another
    /// session records it.
    pub(super) cannot_record: Option<String>,
    /// The process whose session records it, if that is not this session.
    pub(super) recorded_by: Option<ProcessId>,
    pub(super) figures: Option<ProcessFigures>,
    /// When the session learned of it; `None` if it may have ended before.
    pub(super) began: Option<Timestamp>,
    pub(super) died: Option<Timestamp>,
    /// Ends the receive thread of the process.
    pub(super) abandon: Option<CancelHandle>,
    /// The child itself, once the session is over and the exit watcher has ended.
    pub(super) released: Option<Child>,
    /// Another library takes its exit status.
    pub(super) has_status_of_host: bool,
    /// The exit status that the application has told.
    pub(super) told_status: Option<ExitStatus>,
    /// The session has ended before it, and another library takes its exit status.
    pub(super) is_unwatched: bool,
    /// Alive while the application holds a handle to the process.
    pub(super) handle: Weak<()>,
    /// What is known of its files, to find the names of code that it generates. `None` before it
    /// has connected, and once its pool is gone.
    pub(super) files: Option<Arc<ProcessFiles>>,
    /// Whether it may have been forked, and have executed no program since: false if it is known to
    /// have.
    pub(super) may_be_fork: bool,
    /// The process is trusted, so it is assumed to have no sandbox that forbids system calls.
    pub(super) is_trusted: bool,
    /// Whether it was spawned as a process that may have lost rights, and that learns nothing about
    /// other processes.
    pub(super) was_spawned_untrusted: bool,
    /// The totals of its groups, once its pool is gone.
    pub(super) groups: Option<Arc<PoolGroups>>,
    /// The pool is a named file, for which the file system also counts metadata blocks.
    pub(super) in_file: bool,
    /// The process that started it.
    pub(super) parent: Option<ProcessId>,
    /// It was started by any process and joined by itself.
    pub(super) has_joined: bool,
    /// The program that it executed when it connected, to notice that it executes another one.
    pub(super) image: Option<ProgramImage>,
    /// It has executed another program: its recording has ended.
    pub(super) has_executed: bool,
    /// It goes on, and its own recorder records it: the observation has ended.
    pub(super) records_itself: bool,
    /// It was observed for a moment before its own recorder began, and is not shown.
    pub(super) is_left_out: bool,
    /// Whether it has got its pool.
    pub(super) handing: Handing,
    /// It is observed: this session writes its pool.
    pub(super) is_observed: bool,
    /// It has announced its end in its pool, as an orderly exit does.
    pub(super) has_closed_its_pool: bool,
    /// What its pool says about its panics, once it has ended.
    pub(super) panics: PanicEvidence,
    /// The memory of the file into which an observed program writes, in bytes.
    pub(super) ring_bytes: u64,
    /// Its processor time, if it is observed, at the latest reading.
    pub(super) time: Option<ObservedTime>,
}

/// When a process gets its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handing {
    /// When it is started, or when it joins.
    AtStart,
    /// It was spawned without resources, and may join or be observed.
    Later,
    /// It was spawned without resources, and has joined or is observed.
    Claimed,
}

impl TrackedProcess {
    /// Creates the entry of a process that is about to start.
    pub(crate) fn new(name: &str, pid: ProcessId, state: ProcessState, remains: Remains) -> Self {
        Self {
            order: 0,
            name: name.to_owned(),
            pid,
            start: ProcessStart::new(0),
            state,
            remains,
            part_file: None,
            dead_pool: None,
            said_hello: false,
            program: None,
            is_named_by_program: false,
            damage: None,
            cannot_record: None,
            recorded_by: None,
            figures: None,
            began: None,
            died: None,
            abandon: None,
            released: None,
            has_status_of_host: false,
            told_status: None,
            is_unwatched: false,
            handle: Weak::new(),
            files: None,
            may_be_fork: true,
            is_trusted: true,
            was_spawned_untrusted: false,
            groups: None,
            in_file: false,
            parent: None,
            has_joined: false,
            image: None,
            has_executed: false,
            records_itself: false,
            is_left_out: false,
            handing: Handing::AtStart,
            is_observed: false,
            has_closed_its_pool: false,
            panics: PanicEvidence::default(),
            ring_bytes: 0,
            time: None,
        }
    }

    /// Creates the entry of a process that joins by itself. `parent` is the process that started
    /// it.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn joined(
        name: &str,
        (pid, start): (ProcessId, ProcessStart),
        parent: Option<ProcessId>,
        remains: Remains,
    ) -> Self {
        Self {
            start,
            parent,
            has_joined: true,
            is_trusted: false,
            ..Self::new(name, pid, ProcessState::Starting, remains)
        }
    }

    /// Creates the entry of a process whose program is observed. It records from the start, and its
    /// pool is complete without it.
    #[cfg(observing)]
    pub(crate) fn observed(
        name: &str,
        process: (ProcessId, ProcessStart),
        parent: Option<ProcessId>,
        remains: Remains,
    ) -> Self {
        Self {
            state: ProcessState::Connected,
            said_hello: true,
            is_observed: true,
            ..Self::joined(name, process, parent, remains)
        }
    }

    /// For a process that is spawned without resources.
    #[cfg(observing)]
    pub(crate) fn without_resources(mut self) -> Self {
        self.handing = Handing::Later;
        self
    }

    /// With the process that started it.
    pub(crate) fn with_parent(mut self, parent: ProcessId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// With the file through which it passes its part to the parent.
    pub(crate) fn with_part_file(mut self, part_file: Option<Arc<PartFile>>) -> Self {
        self.part_file = part_file;
        self
    }

    /// With the handle that ends its channel.
    pub(crate) fn with_channel(mut self, abandon: CancelHandle) -> Self {
        self.abandon = Some(abandon);
        self
    }

    /// With a pool that is a named file, or is not.
    pub(crate) const fn with_pool_in_file(mut self, in_file: bool) -> Self {
        self.in_file = in_file;
        self
    }

    /// With or without the host's trust.
    pub(crate) const fn with_trust(mut self, is_trusted: bool) -> Self {
        self.is_trusted = is_trusted;
        self.was_spawned_untrusted = !is_trusted;
        self
    }

    /// With an exit status that another library takes, or not.
    pub(crate) const fn with_status_of_host(mut self, is_of_host: bool) -> Self {
        self.has_status_of_host = is_of_host;
        self
    }

    /// With the program that it executes, if that is known.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) const fn with_image(mut self, image: Option<ProgramImage>) -> Self {
        self.image = image;
        self
    }

    /// With the reason why it does not record here.
    pub(crate) fn with_refusal(mut self, why: String) -> Self {
        self.cannot_record = Some(why);
        self
    }

    /// With a hello, or without.
    #[cfg(test)]
    pub(crate) const fn with_hello(mut self, said_hello: bool) -> Self {
        self.said_hello = said_hello;
        self
    }

    /// Whether it is the process with this number and this start time, as far as is known: a
    /// number is used again after the end of its process.
    pub(super) fn is_process(&self, pid: ProcessId, start: ProcessStart) -> bool {
        let is_unknown = self.start.get() == 0 || start.get() == 0;
        self.pid == pid && (is_unknown || self.start == start)
    }

    /// The reason why the process cannot be asked for its part; `None` if it can be asked.
    pub(super) fn why_unable(&self) -> Option<Why> {
        if let Some(message) = self.damage.clone() {
            return Some(Why::Unreadable { message });
        }
        if self.has_executed {
            return Some(self.why_another_life());
        }
        match &self.state {
            ProcessState::Executed => Some(self.why_another_life()),
            // This process may record for another session.
            ProcessState::Parent => self
                .cannot_record
                .clone()
                .map(|message| Why::Unprofiled { message }),
            ProcessState::Connected => None,
            ProcessState::Starting => Some(self.why_never_connected()),
            ProcessState::Disconnected(message) => Some(Why::Refused {
                message: message.clone(),
            }),
            ProcessState::Exited(Some(status)) if self.is_never_seen(*status) => {
                Some(self.why_never_connected())
            }
            ProcessState::Exited(status) => Some(self.why_ended(*status)),
        }
    }

    /// Whether a process has exited in order with this status, and was never heard of.
    fn is_never_seen(&self, status: ExitStatus) -> bool {
        Why::ended(Some(status)).is_orderly() && !self.said_hello && self.is_untouched()
    }

    /// How the process ended, as the system and its pool say.
    pub(super) fn why_ended(&self, status: Option<ExitStatus>) -> Why {
        let why = match Why::ended(status) {
            Why::Gone if self.has_closed_its_pool => Why::ExitedUnseen,
            why => why,
        };
        self.panics.explain(why)
    }

    /// Why its recording has ended although the process goes on.
    pub(super) const fn why_another_life(&self) -> Why {
        if self.records_itself {
            Why::RecordsItself
        } else {
            Why::Executed
        }
    }

    /// The reason why the profile has nothing of it, if another session records it.
    pub(super) fn why_elsewhere(&self) -> Option<Why> {
        let session = self.recorded_by?.get();
        Some(Why::RecordedElsewhere { session })
    }

    fn why_never_connected(&self) -> Why {
        if let Some(why) = self.why_elsewhere() {
            return why;
        }
        match self.cannot_record.clone() {
            Some(message) => Why::Unprofiled { message },
            // A process joins when it attaches its pool; a short one may end before its hello.
            None if self.has_joined && self.is_over() => Why::RecordedNothing,
            None => Why::NeverConnected,
        }
    }

    /// Whether the channel has closed although the process is not known to be dead.
    pub(super) const fn has_hung_up(&self) -> bool {
        matches!(self.state, ProcessState::Disconnected(_))
    }

    /// Whether the process runs, as far as is known.
    pub(super) const fn seems_to_run(&self) -> bool {
        matches!(self.state, ProcessState::Starting | ProcessState::Connected)
    }

    /// Whether the recording of the process has ended: it has exited, or executes another program.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.state, ProcessState::Exited(_) | ProcessState::Executed)
    }

    /// Whether it had memory to record in and never used it. The pool may be closed or not yet.
    fn is_untouched(&self) -> bool {
        self.remains.has_or_had_data() && !self.remains.is_taken()
    }
}
