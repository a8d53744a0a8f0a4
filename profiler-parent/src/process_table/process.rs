//! One process of a session: its state, its pool, and what the controller says about its memory.
//!
//! Held by the [`ProcessTable`](super::ProcessTable), whose lock protects it. Changed by the
//! supervisor and by spawning.

use std::process::Child;
use std::sync::{Arc, Weak};

use ipc_protocol::transport::listener::CancelHandle;
use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::internal::dead_pool::DeadPool;
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::pool::layout::Life;
use profiler_core::internal::reader::PoolReader;
use profiler_core::internal::reader::groups::PoolGroups;
use profiler_core::internal::sys::{self, OwnFile};
use profiler_core::time::Timestamp;

use super::report::{ProcessReport, ProcessState};
use crate::controller::ProcessFigures;
use crate::gather::verdict::Why;
use crate::part_file::Outbox;

/// What a file system may count for one pool beside its data, if that is more than a sixteenth: blocks
/// that describe it, and such as are reserved for a moment.
const FILE_SYSTEM_SLACK: u64 = 1 << 20;

/// What is left of a process's data.
#[derive(Clone, Debug)]
pub(crate) enum Remains {
    /// Its pool.
    Pool(Arc<OwnFile>),
    /// Nothing: all of it was older than what the limit keeps. Its final entry counts are kept.
    Expired(EntryCounts),
    /// Nothing, because it never recorded, for this reason.
    Unprofiled(String),
}

/// What the session knows of a process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) order: u64,
    pub(crate) name: String,
    pub(crate) pid: ProcessId,
    pub(crate) state: ProcessState,
    pub(crate) remains: Remains,
    pub(crate) outbox: Option<Arc<Outbox>>,
    pub(crate) dead_pool: Option<DeadPool>,
    pub(crate) said_hello: bool,
    /// Why what it left could not be read.
    pub(crate) damage: Option<String>,
    pub(crate) figures: Option<ProcessFigures>,
    pub(crate) died: Option<Timestamp>,
    /// Ends its receive thread.
    pub(crate) abandon: Option<CancelHandle>,
    /// The process itself, once the session is over and the exit watcher has ended.
    pub(crate) released: Option<Child>,
    /// Whether the host has a handle to it.
    pub(crate) handle: Weak<()>,
    /// It may make any system call, as far as is known.
    pub(crate) is_trusted: bool,
    /// What its groups came to, once its pool is gone.
    pub(crate) groups: Option<Arc<PoolGroups>>,
    /// Its pool lies in a file, of which the file system also counts what describes it.
    pub(crate) in_file: bool,
}

impl Remains {
    pub(super) fn recorded(&self) -> u64 {
        let Self::Pool(file) = self else { return self.counts().recorded() };
        let snapshot = PoolReader::open(&**file).and_then(|reader| reader.snapshot());
        snapshot.map_or(0, |snapshot| snapshot.counts().recorded())
    }

    /// Whether a process has attached the pool, or had.
    pub(crate) fn is_taken(&self) -> bool {
        match self {
            Self::Pool(file) => {
                PoolReader::open(&**file).is_ok_and(|reader| reader.header().life != Life::Created)
            }
            Self::Expired(counts) => counts.recorded() > 0,
            Self::Unprofiled(_) => false,
        }
    }

    /// The final entry counts of data that is gone.
    pub(super) fn counts(&self) -> EntryCounts {
        match self {
            Self::Expired(counts) => *counts,
            Self::Pool(_) | Self::Unprofiled(_) => EntryCounts::default(),
        }
    }
}

impl Process {
    /// A process that is about to start.
    pub(crate) fn new(name: &str, pid: ProcessId, state: ProcessState, remains: Remains) -> Self {
        Self {
            order: 0,
            name: name.to_owned(),
            pid,
            state,
            remains,
            outbox: None,
            dead_pool: None,
            said_hello: false,
            damage: None,
            figures: None,
            died: None,
            abandon: None,
            released: None,
            handle: Weak::new(),
            is_trusted: true,
            groups: None,
            in_file: false,
        }
    }

    /// Ends the wait for its hello, or its channel. Messages that have arrived are still handled.
    pub(crate) fn hang_up(&self) {
        if let Some(abandon) = &self.abandon {
            abandon.abandon();
            abandon.hang_up();
        }
    }

    /// Why it cannot be asked for its part; `None` if it can.
    pub(crate) fn why_unable(&self) -> Option<Why> {
        if let Some(message) = self.damage.clone() {
            return Some(Why::Unreadable { message });
        }
        match &self.state {
            ProcessState::Parent | ProcessState::Connected => None,
            ProcessState::Starting => Some(Why::NeverConnected),
            ProcessState::Disconnected(message) => Some(Why::Refused { message: message.clone() }),
            ProcessState::Exited(status) => match Why::ended(*status) {
                why if why.is_orderly() && !self.said_hello && self.is_untouched() => {
                    Some(Why::NeverConnected)
                }
                why => Some(why),
            },
        }
    }

    /// Whether its channel has closed and it is not known to be dead.
    pub(crate) const fn has_hung_up(&self) -> bool {
        matches!(self.state, ProcessState::Disconnected(_))
    }

    /// Whether it runs, as far as is known.
    pub(crate) const fn seems_to_run(&self) -> bool {
        matches!(self.state, ProcessState::Starting | ProcessState::Connected)
    }

    /// Whether nothing was ever recorded into its pool.
    fn is_untouched(&self) -> bool {
        matches!(self.remains, Remains::Expired(counts) if counts.recorded() == 0)
    }

    /// What the controller is charged for a dead process's pool that holds `held`: no more than was
    /// granted, so that no other process loses data for one that took more.
    pub(crate) fn charge(&self, held: u64) -> u64 {
        held.min(self.figures.map_or(held, |figures| figures.booked))
    }

    /// `true_bytes` without what a file system may take for itself beside the data.
    pub(super) fn accountable(&self, true_bytes: u64) -> u64 {
        let booked = self.figures.map_or(0, |figures| figures.booked);
        let slack = if self.in_file { FILE_SYSTEM_SLACK.max(booked / 16) } else { 0 };
        true_bytes.saturating_sub(slack)
    }

    /// What its pool occupies now.
    pub(super) fn true_bytes(&self) -> u64 {
        match &self.remains {
            Remains::Pool(file) => file.get().map_or(0, |file| sys::allocated_bytes(file).unwrap_or(0)),
            Remains::Expired(_) | Remains::Unprofiled(_) => 0,
        }
    }

    pub(crate) fn report(&self) -> ProcessReport {
        let true_bytes = self.true_bytes(); // once: it changes all the time
        let unprofiled = match &self.remains {
            Remains::Unprofiled(why) => Some(why.clone()),
            Remains::Pool(_) | Remains::Expired(_) => None,
        };
        ProcessReport {
            name: self.name.clone(),
            pid: self.pid,
            state: self.state.clone(),
            unprofiled,
            allowance: self.figures.map_or(ByteLimit::new(0), |figures| figures.allowance),
            held_bytes: self.figures.map_or(0, |figures| figures.held),
            true_bytes,
            owed_bytes: self.figures.map_or(0, |figures| figures.owed()),
            excess_bytes: self.accountable(true_bytes).saturating_sub(self.charge(true_bytes)),
        }
    }
}
