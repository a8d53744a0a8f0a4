//! The processes of a session, as everyone may see them.
//!
//! Written by the hub and by spawning, read by the session and by captures. A process stays for the
//! whole session, also when it is dead and when its data is gone.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipc_protocol::transport::ipc_channel::Abandon;
use profiler_core::grave::Grave;
use profiler_core::ids::{ByteLimit, PoolId, ProcessId};
use profiler_core::losses::EntryCounts;
use profiler_core::sys;
use profiler_core::time::Timestamp;

use crate::controller::ProcessFigures;
use crate::outbox::Outbox;

/// What a process is doing, as far as the session knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessState {
    /// This process, the parent.
    Parent,
    /// Started; has not said hello.
    Starting,
    /// Connected and alive.
    Connected,
    /// Its channel has ended, for this reason, but the process lives.
    Disconnected(String),
    /// It has ended. `None`: somebody else in this process took its exit status.
    Exited(Option<ExitStatus>),
}

/// One process of a session with its memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProcessReport {
    /// Shown name.
    pub name: String,
    /// System number.
    pub pid: ProcessId,
    /// What it is doing.
    pub state: ProcessState,
    /// Why it does not record, if so.
    pub unprofiled: Option<String>,
    /// What it may hold.
    pub allowance: ByteLimit,
    /// What it held by its latest report, in bytes.
    pub held_bytes: u64,
    /// What its pool really occupies now, in bytes.
    pub true_bytes: u64,
}

/// What is left of a process's data.
#[derive(Clone, Debug)]
pub(crate) enum Remains {
    /// Its pool.
    Pool(Arc<File>),
    /// Nothing: all of it was older than what the limit keeps. Its final books are kept.
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
    pub(crate) grave: Option<Grave>,
    pub(crate) said_hello: bool,
    pub(crate) figures: Option<ProcessFigures>,
    pub(crate) died: Option<Timestamp>,
    /// Ends its receive thread.
    pub(crate) abandon: Option<Abandon>,
}

/// All processes of a session.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    all: Mutex<BTreeMap<PoolId, Process>>,
    changed: std::sync::Condvar,
}

impl Processes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolId, Process>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process, after all that are there.
    pub(crate) fn add(&self, key: PoolId, mut process: Process) {
        let mut all = self.lock();
        process.order = all.len() as u64;
        all.insert(key, process);
    }

    /// Changes a process, and wakes whoever waits for its end.
    pub(crate) fn change<T>(&self, key: PoolId, change: impl FnOnce(&mut Process) -> T) -> Option<T> {
        let changed = self.lock().get_mut(&key).map(change);
        self.changed.notify_all();
        changed
    }

    /// Waits until a process has ended.
    pub(crate) fn wait_for_end(&self, key: PoolId) -> Option<ExitStatus> {
        let mut all = self.lock();
        loop {
            match all.get(&key).map(|process| &process.state) {
                Some(ProcessState::Exited(status)) => return *status,
                None => return None,
                Some(_) => all = self.changed.wait(all).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Ends the receive threads of all children that live on; the session is over.
    pub(crate) fn hang_up(&self) {
        for process in self.lock().values() {
            if let Some(abandon) = &process.abandon {
                abandon.abandon();
                abandon.hang_up();
            }
        }
    }

    /// All processes in the order in which they came, with live figures.
    pub(crate) fn reports(&self) -> Vec<ProcessReport> {
        let all = self.lock();
        let mut processes: Vec<&Process> = all.values().collect();
        processes.sort_by_key(|process| process.order);
        processes.into_iter().map(Process::report).collect()
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
            grave: None,
            said_hello: false,
            figures: None,
            died: None,
            abandon: None,
        }
    }

    fn report(&self) -> ProcessReport {
        let (true_bytes, unprofiled) = match &self.remains {
            Remains::Pool(file) => (sys::allocated_bytes(&**file).unwrap_or(0), None),
            Remains::Expired(_) => (0, None),
            Remains::Unprofiled(why) => (0, Some(why.clone())),
        };
        ProcessReport {
            name: self.name.clone(),
            pid: self.pid,
            state: self.state.clone(),
            unprofiled,
            allowance: self.figures.map_or(ByteLimit::new(0), |figures| figures.allowance),
            held_bytes: self.figures.map_or(0, |figures| figures.held),
            true_bytes,
        }
    }
}
