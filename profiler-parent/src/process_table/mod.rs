//! The processes of a session, as everyone may see them.
//!
//! Written by the hub and by spawning, read by the session and by captures. A process stays when it is
//! dead, and when its data is gone as long as it is one of the latest of those, or somebody waits for it.

mod expired;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use ipc_protocol::transport::listener::Abandon;
use profiler_core::grave::Grave;
use profiler_core::ids::{ByteLimit, PoolId, ProcessId};
use profiler_core::losses::EntryCounts;
use profiler_core::pool::layout::Life;
use profiler_core::reader::PoolReader;
use profiler_core::sys::{self, OwnFile};
use profiler_core::time::Timestamp;

use crate::controller::ProcessFigures;
use crate::gather::verdict::Why;
use crate::outbox::Outbox;
use crate::spawn::watch::ExitWatcher;
use expired::{Earlier, EarlierProcesses};

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
    /// What it was asked to give back and has not yet shown to have given. It stays so while the
    /// process stands still; others give it then.
    pub owed_bytes: u64,
    /// What its pool occupies beyond all that it was ever allowed. Not zero only for a process that
    /// writes into its pool past the profiler: wildly, or with intent.
    pub excess_bytes: u64,
}

/// What a file system may count for one pool beside its data, if that is more than a sixteenth: blocks
/// that describe it, and such as are reserved for a moment.
const FILE_SYSTEM_SLACK: u64 = 1 << 20;

/// What is left of a process's data.
#[derive(Clone, Debug)]
pub(crate) enum Remains {
    /// Its pool.
    Pool(Arc<OwnFile>),
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
    /// Why what it left could not be read.
    pub(crate) damage: Option<String>,
    pub(crate) figures: Option<ProcessFigures>,
    pub(crate) died: Option<Timestamp>,
    /// Ends its receive thread.
    pub(crate) abandon: Option<Abandon>,
    /// The process itself, once the session is over: nobody watches it any more.
    pub(crate) released: Option<Child>,
    /// Whether the host has a handle to it.
    pub(crate) handle: Weak<()>,
    /// It may make any system call, as far as is known.
    pub(crate) is_trusted: bool,
    /// What its groups came to, once its pool is gone.
    pub(crate) groups: Option<Arc<profiler_core::reader::groups::PoolGroups>>,
    /// Its pool lies in a file, of which the file system also counts what describes it.
    pub(crate) in_file: bool,
}

/// All processes of a session.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    all: Mutex<BTreeMap<PoolId, Process>>,
    came: AtomicU64,
    earlier: Mutex<Earlier>,
    changed: std::sync::Condvar,
}

impl Processes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<PoolId, Process>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process, after all that are there.
    pub(crate) fn add(&self, key: PoolId, mut process: Process) {
        process.order = self.came.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(key, process);
    }

    /// A process is dead and has nothing left: it, or the longest dead of those, goes into the sum.
    pub(crate) fn note_empty(&self, key: PoolId) {
        let mut earlier = self.earlier.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(oldest) = earlier.add(key) else { return };
        let mut all = self.lock();
        if all.get(&oldest).is_some_and(|process| process.handle.strong_count() > 0) {
            return earlier.keep(oldest);
        }
        if let Some(process) = all.remove(&oldest) {
            earlier.forget(process.remains.counts());
        }
    }

    /// Entries that all processes have recorded, as their pools say now.
    pub(crate) fn recorded(&self) -> u64 {
        let all: Vec<Remains> = self.lock().values().map(|process| process.remains.clone()).collect();
        let gone = self.earlier().counts.recorded();
        all.iter().map(Remains::recorded).fold(gone, u64::saturating_add) // read without the lock
    }

    /// Whether a process took its pool.
    pub(crate) fn has_begun(&self, key: PoolId) -> bool {
        let known = self.lock().get(&key).map(|process| (process.said_hello, process.remains.clone()));
        known.is_some_and(|(said_hello, remains)| said_hello || remains.is_taken())
    }

    /// Processes that are not listed any more.
    pub(crate) fn earlier(&self) -> EarlierProcesses {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner).sum()
    }

    /// Removes a process that could not be started after all.
    pub(crate) fn remove(&self, key: PoolId) {
        self.lock().remove(&key);
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
                Some(_) if all.get(&key).is_some_and(|process| process.released.is_some()) => break,
                Some(_) => all = self.changed.wait(all).unwrap_or_else(PoisonError::into_inner),
            }
        }
        // The session is over. Waited for without the lock: it may take long.
        let process = all.get_mut(&key)?;
        let mut child = process.released.take()?;
        drop(all);
        let status = child.wait().ok();
        self.change(key, |process| process.state = ProcessState::Exited(status));
        status
    }

    /// Whether a child has ended.
    pub(crate) fn has_ended(&self, key: PoolId) -> bool {
        let mut all = self.lock();
        let Some(process) = all.get_mut(&key) else { return true };
        // The session is over, so nobody else looks.
        if let Some(child) = &mut process.released
            && let Ok(Some(status)) = child.try_wait()
        {
            process.state = ProcessState::Exited(Some(status));
        }
        matches!(process.state, ProcessState::Exited(_))
    }

    /// The session is over: handles keep the processes that are still alive. These move from the
    /// watcher under the lock, so a child that the watcher no longer has is found here.
    pub(crate) fn release(&self, watcher: &ExitWatcher<PoolId>) {
        let mut all = self.lock();
        for (key, child) in watcher.take_children() {
            if let Some(process) = all.get_mut(&key) {
                process.released = Some(child);
            }
        }
        drop(all);
        self.changed.notify_all();
    }

    /// Ends a process that was released. `None` if it was not, or has ended.
    pub(crate) fn kill_released(&self, key: PoolId) -> Option<std::io::Result<()>> {
        self.lock().get_mut(&key)?.released.as_mut().map(Child::kill)
    }

    /// Waits while something holds of the processes, at most so long.
    pub(crate) fn wait_while(
        &self,
        patience: std::time::Duration,
        mut holds: impl FnMut(&BTreeMap<PoolId, Process>) -> bool,
    ) {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |all| holds(all));
        drop(waited);
    }

    /// Ends the receive threads of all children that live on; the session is over.
    pub(crate) fn hang_up(&self) {
        for process in self.lock().values() {
            process.hang_up();
        }
    }

    /// The members that have a file to write their part to. For all others the pool is read.
    pub(crate) fn writers(&self) -> BTreeSet<PoolId> {
        let all = self.lock();
        all.iter().filter(|(_, process)| process.outbox.is_some()).map(|(key, _)| *key).collect()
    }

    /// What the pools of all processes occupy that have not ended, as far as they are to blame.
    pub(crate) fn occupied_by_the_living(&self) -> Vec<(PoolId, u64)> {
        let all = self.lock();
        let living = all.iter().filter(|(_, process)| !matches!(process.state, ProcessState::Exited(_)));
        living.map(|(key, process)| (*key, process.accountable(process.true_bytes()))).collect()
    }

    /// All processes in the order in which they came, with live figures.
    pub(crate) fn reports(&self) -> Vec<ProcessReport> {
        let all = self.lock();
        let mut processes: Vec<&Process> = all.values().collect();
        processes.sort_by_key(|process| process.order);
        processes.into_iter().map(Process::report).collect()
    }
}

impl Remains {
    fn recorded(&self) -> u64 {
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

    /// The final books of what is gone.
    fn counts(&self) -> EntryCounts {
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
            grave: None,
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

    /// Ends the waiting for its hello, or its channel. What it has sent is still heard.
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

    /// What the books are charged for a dead process's pool that holds `held`: no more than it was
    /// granted, so that nobody loses data for one that took more.
    pub(crate) fn charge(&self, held: u64) -> u64 {
        held.min(self.figures.map_or(held, |figures| figures.booked))
    }

    /// `true_bytes` without what a file system may take for itself beside the data.
    fn accountable(&self, true_bytes: u64) -> u64 {
        let booked = self.figures.map_or(0, |figures| figures.booked);
        let slack = if self.in_file { FILE_SYSTEM_SLACK.max(booked / 16) } else { 0 };
        true_bytes.saturating_sub(slack)
    }

    /// What its pool occupies now.
    fn true_bytes(&self) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::expired::MOST_LISTED;
    use super::*;

    fn dead(recorded: u64) -> Process {
        let counts = EntryCounts { evicted: recorded, ..EntryCounts::default() };
        let state = ProcessState::Exited(None);
        Process::new("dead", ProcessId::new(1), state, Remains::Expired(counts))
    }

    #[test]
    fn the_dead_without_data_do_not_pile_up_and_their_entries_stay_counted() {
        let (processes, handle) = (Processes::default(), Arc::new(()));
        for number in 0..MOST_LISTED as u128 + 10 {
            let mut process = dead(1);
            if number == 3 {
                process.handle = Arc::downgrade(&handle);
            }
            processes.add(PoolId::new(number), process);
            processes.note_empty(PoolId::new(number));
        }
        let earlier = processes.earlier();
        assert_eq!(processes.lock().len() as u64 + earlier.processes, MOST_LISTED as u64 + 10);
        assert_eq!((earlier.processes, earlier.counts.recorded()), (9, 9));
        assert!(processes.lock().contains_key(&PoolId::new(3)), "the host may still ask how it ended");
        assert!(!processes.lock().contains_key(&PoolId::new(4)));
        let last = processes.lock().values().map(|process| process.order).max();
        assert_eq!(last, Some(MOST_LISTED as u64 + 9), "the order in which they came is kept");
    }
}
