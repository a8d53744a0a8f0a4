//! One process of a session: its state, its pool, and the controller's figures for its memory.
//!
//! Held by the [`ProcessTable`](super::ProcessTable), whose lock protects it. Changed by the
//! supervisor and by spawning.

use std::process::{Child, ExitStatus};
use std::sync::{Arc, Weak};

use ipc_protocol::transport::listener::CancelHandle;
use profiler_core::ids::{ByteLimit, ProcessId, ProcessStart};
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::pool::layout::Life;
use profiler_core::internal::reader::PoolReader;
use profiler_core::internal::reader::groups::PoolGroups;
use profiler_core::internal::sys;
use profiler_core::time::Timestamp;
use profiler_sys::OwnFile;

use super::brief::BriefLife;
use super::report::{ProcessReport, ProcessState};
use crate::controller::ProcessFigures;
use crate::gather::panic_evidence::PanicEvidence;
use crate::gather::verdict::Why;
use crate::generated_code::ProcessFiles;
use crate::part_file::PartFile;
use crate::sys::ProgramImage;

/// Bytes that a file system may count for one pool in addition to its data: metadata blocks, and
/// blocks that are reserved for a short time. For a large pool it is a sixteenth of the charged
/// bytes.
const FILE_SYSTEM_SLACK: u64 = 1 << 20;

/// What is left of a process's data.
#[derive(Clone, Debug)]
pub(crate) enum Remains {
    /// The pool.
    Pool(Arc<OwnFile>),
    /// No data: all of it was older than the data that fits into the limit. The final entry counts
    /// are kept.
    Expired(EntryCounts),
    /// No data, because the process never recorded, for this reason.
    Unprofiled(String),
    /// No data, because its program has announced itself and has not asked for memory.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    Brief(BriefLife),
}

/// A process of the session.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) order: u64,
    pub(crate) name: String,
    pub(crate) pid: ProcessId,
    /// When it started, if that is known; otherwise 0. With the number, it identifies the process.
    pub(crate) start: ProcessStart,
    pub(crate) state: ProcessState,
    pub(crate) remains: Remains,
    pub(crate) part_file: Option<Arc<PartFile>>,
    pub(crate) dead_pool: Option<DeadPool>,
    pub(crate) said_hello: bool,
    /// The file name of the program that said hello.
    pub(crate) program: Option<String>,
    /// Whether it is named after that program.
    pub(crate) is_named_by_program: bool,
    /// The reason why its remaining data could not be read.
    pub(crate) damage: Option<String>,
    /// The reason why it never attaches its pool, according to the application, or because another
    /// session records it.
    pub(crate) cannot_record: Option<String>,
    /// The process whose session records it, if that is not this session.
    pub(crate) recorded_by: Option<ProcessId>,
    pub(crate) figures: Option<ProcessFigures>,
    /// When the session learned of it; `None` if it may have ended before.
    pub(crate) began: Option<Timestamp>,
    pub(crate) died: Option<Timestamp>,
    /// Ends the receive thread of the process.
    pub(crate) abandon: Option<CancelHandle>,
    /// The child itself, once the session is over and the exit watcher has ended.
    pub(crate) released: Option<Child>,
    /// Alive while the application holds a handle to the process.
    pub(crate) handle: Weak<()>,
    /// What is known of its files, to find the names of code that it generates. `None` before it
    /// has connected, and once its pool is gone.
    pub(crate) files: Option<Arc<ProcessFiles>>,
    /// The process is trusted, so it is assumed to have no sandbox that forbids system calls.
    pub(crate) is_trusted: bool,
    /// The totals of its groups, once its pool is gone.
    pub(crate) groups: Option<Arc<PoolGroups>>,
    /// The pool is a named file, for which the file system also counts metadata blocks.
    pub(crate) in_file: bool,
    /// The process that started it.
    pub(crate) parent: Option<ProcessId>,
    /// It was started by any process and joined by itself.
    pub(crate) has_joined: bool,
    /// The program that it executed when it connected, to notice that it executes another one.
    pub(crate) image: Option<ProgramImage>,
    /// It has executed another program: its recording has ended.
    pub(crate) has_executed: bool,
    /// It has announced its end in its pool, as an orderly exit does.
    pub(crate) has_closed_its_pool: bool,
    /// What its pool says about its panics, once it has ended.
    pub(crate) panics: PanicEvidence,
}

impl Remains {
    /// Whether there is data, or was.
    pub(super) const fn has_or_had_data(&self) -> bool {
        matches!(self, Self::Pool(_) | Self::Expired(_))
    }

    /// The present entry counts.
    pub(super) fn present_counts(&self) -> EntryCounts {
        let Self::Pool(file) = self else {
            return self.counts();
        };
        let snapshot = PoolReader::open(&**file).and_then(|reader| reader.snapshot());
        snapshot.map_or_else(|_| EntryCounts::default(), |snapshot| snapshot.counts())
    }

    /// Whether a process has attached the pool, now or before.
    pub(crate) fn is_taken(&self) -> bool {
        match self {
            Self::Pool(file) => {
                PoolReader::open(&**file).is_ok_and(|reader| reader.header().life != Life::Created)
            }
            Self::Expired(counts) => counts.recorded() > 0,
            Self::Unprofiled(_) | Self::Brief(_) => false,
        }
    }

    /// Whether the process `pid` has attached the pool, as far as is known.
    pub(super) fn is_taken_by(&self, pid: ProcessId) -> bool {
        match self {
            Self::Pool(file) => PoolReader::open(&**file).is_ok_and(|reader| {
                let header = reader.header();
                header.life != Life::Created && header.pid == pid
            }),
            Self::Expired(_) | Self::Unprofiled(_) | Self::Brief(_) => self.is_taken(),
        }
    }

    /// The process that has attached the pool, if there is a pool and one has. It is another
    /// process than the started one if that is a wrapper.
    pub(super) fn owner(&self) -> Option<ProcessId> {
        let Self::Pool(file) = self else { return None };
        let reader = PoolReader::open(&**file).ok()?;
        let header = reader.header();
        (header.life != Life::Created).then_some(header.pid)
    }

    /// The final entry counts of data that is gone.
    pub(super) fn counts(&self) -> EntryCounts {
        match self {
            Self::Expired(counts) => *counts,
            Self::Pool(_) | Self::Unprofiled(_) | Self::Brief(_) => EntryCounts::default(),
        }
    }
}

impl Process {
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
            handle: Weak::new(),
            files: None,
            is_trusted: true,
            groups: None,
            in_file: false,
            parent: None,
            has_joined: false,
            image: None,
            has_executed: false,
            has_closed_its_pool: false,
            panics: PanicEvidence::default(),
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

    /// Whether it is the process with this number and this start time, as far as is known: a
    /// number is used again after the end of its process.
    pub(super) fn is_process(&self, pid: ProcessId, start: ProcessStart) -> bool {
        let is_unknown = self.start.get() == 0 || start.get() == 0;
        self.pid == pid && (is_unknown || self.start == start)
    }

    /// Gives the process the name of its program, if that was asked for and the program is known.
    pub(crate) fn take_program_name(&mut self) {
        if let Some(program) = self.program.clone().filter(|_| self.is_named_by_program) {
            self.name = program;
        }
    }

    /// Ends the wait for the process's hello, or closes its channel. Messages that have arrived are
    /// still handled.
    pub(crate) fn hang_up(&self) {
        if let Some(abandon) = &self.abandon {
            abandon.abandon();
            abandon.hang_up();
        }
    }

    /// The reason why the process cannot be asked for its part; `None` if it can be asked.
    pub(crate) fn why_unable(&self) -> Option<Why> {
        if let Some(message) = self.damage.clone() {
            return Some(Why::Unreadable { message });
        }
        if self.has_executed {
            return Some(Why::Executed);
        }
        match &self.state {
            ProcessState::Executed => Some(Why::Executed),
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
    pub(crate) fn why_ended(&self, status: Option<ExitStatus>) -> Why {
        let why = match Why::ended(status) {
            Why::Gone if self.has_closed_its_pool => Why::ExitedUnseen,
            why => why,
        };
        self.panics.explain(why)
    }

    /// The reason why the profile has nothing of it, if another session records it.
    pub(crate) fn why_elsewhere(&self) -> Option<Why> {
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

    /// Whether its program ended before it asked for memory.
    pub(super) const fn is_brief(&self) -> bool {
        matches!(&self.remains, Remains::Brief(life) if !life.runs_on)
    }

    /// Whether the channel has closed although the process is not known to be dead.
    pub(crate) const fn has_hung_up(&self) -> bool {
        matches!(self.state, ProcessState::Disconnected(_))
    }

    /// Whether the process runs, as far as is known.
    pub(crate) const fn seems_to_run(&self) -> bool {
        matches!(self.state, ProcessState::Starting | ProcessState::Connected)
    }

    /// Whether the recording of the process has ended: it has exited, or executes another program.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.state, ProcessState::Exited(_) | ProcessState::Executed)
    }

    /// Whether the data is gone and no entry was ever recorded.
    fn is_untouched(&self) -> bool {
        matches!(self.remains, Remains::Expired(counts) if counts.recorded() == 0)
    }

    /// Bytes charged to the limit for a dead process's pool of `held` bytes: at most the granted
    /// bytes, so that other processes do not lose data for a process that took more.
    pub(crate) fn charge(&self, held: u64) -> u64 {
        held.min(self.figures.map_or(held, |figures| figures.charged))
    }

    /// `true_bytes` minus the bytes that a file system may add to the data.
    pub(super) fn accountable(&self, true_bytes: u64) -> u64 {
        let charged = self.figures.map_or(0, |figures| figures.charged);
        let slack = if self.in_file {
            FILE_SYSTEM_SLACK.max(charged / 16)
        } else {
            0
        };
        true_bytes.saturating_sub(slack)
    }

    /// Bytes that the pool occupies now.
    pub(super) fn true_bytes(&self) -> u64 {
        match &self.remains {
            Remains::Pool(file) => file
                .get()
                .map_or(0, |file| sys::allocated_bytes(file).unwrap_or(0)),
            Remains::Expired(_) | Remains::Unprofiled(_) | Remains::Brief(_) => 0,
        }
    }

    pub(crate) fn report(&self) -> ProcessReport {
        let true_bytes = self.true_bytes(); // read once, because it changes
        let unprofiled = match &self.remains {
            Remains::Unprofiled(why) => Some(why.clone()),
            Remains::Brief(life) if life.lived.is_some() || life.runs_on || self.is_over() => {
                Some(life.why(self.why_unable()).to_string())
            }
            Remains::Brief(_) => None,
            Remains::Pool(_) | Remains::Expired(_) => self.cannot_record.clone(),
        };
        ProcessReport {
            name: self.name.clone(),
            pid: self.pid,
            parent: self.parent,
            has_joined: self.has_joined,
            state: self.state.clone(),
            unprofiled,
            recorded_by: self.recorded_by,
            allowance: self
                .figures
                .map_or(ByteLimit::new(0), |figures| figures.allowance),
            held_bytes: self.figures.map_or(0, |figures| figures.held),
            true_bytes,
            owed_bytes: self.figures.map_or(0, |figures| figures.owed()),
            excess_bytes: self
                .accountable(true_bytes)
                .saturating_sub(self.charge(true_bytes)),
        }
    }
}
