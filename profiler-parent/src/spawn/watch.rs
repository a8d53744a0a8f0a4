//! One thread that reports when any child ends, and when any process ends that has joined the
//! session by itself.
//!
//! Created once per session. Only the exit of a process proves its death: a closed channel is a
//! hint, since a fork of the child may hold the channel open. Invariants:
//!
//! - The exit of every watched process is reported exactly once, unless the watcher is stopped, or
//!   told to forget the process, before.
//! - The exit status of a child is taken (no zombie remains), unless the host took it first. That
//!   of another process is read, if the system tells it, and never taken, even if the process is a
//!   child of the host.
//! - The callback runs on the watcher's thread with no lock held, so it may call the watcher.
//! - If the program closes the descriptors that this thread waits on, an exit is reported at most a
//!   second late.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_sys::{OwnDescriptor, QuietThread};

use crate::sys::{ChildHandle, Reaped, Waker};

/// The polling interval on systems that do not report exits.
const ASK_INTERVAL: Duration = Duration::from_millis(20);

/// How often this thread checks whether the program has closed the descriptors that it waits on.
const DESCRIPTOR_CHECK: Duration = Duration::from_secs(1);
/// The smallest check interval per child, so that the checks cost about a thousandth of a
/// processor.
const DESCRIPTOR_CHECK_PER_CHILD: Duration = Duration::from_millis(10);

/// The signal that kills a process at once, on every system.
pub(crate) const KILL: i32 = 9;

/// A child that could not be watched, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("cannot watch process {}: {error}", child.id())]
pub(crate) struct WatchError {
    /// The child, returned to the caller.
    pub(crate) child: Child,
    /// The reason.
    #[source]
    pub(crate) error: io::Error,
}

/// Watches children, each under a key that the caller chooses.
#[derive(Debug)]
pub(crate) struct ExitWatcher<K: Ord> {
    shared: Arc<WatcherState<K>>,
    thread: Mutex<Option<QuietThread<()>>>,
}

#[derive(Debug)]
struct WatcherState<K> {
    /// Recreated if the program has closed it.
    bell: Mutex<Arc<Waker>>,
    state: Mutex<WatchedChildren<K>>,
}

#[derive(Debug)]
struct WatchedChildren<K> {
    children: BTreeMap<K, Watched>,
    stopped: bool,
}

#[derive(Debug)]
struct Watched {
    subject: Subject,
    /// Absent where the system has none; then the process is polled.
    handle: Option<Arc<ChildHandle>>,
}

/// A watched process.
#[derive(Debug)]
enum Subject {
    /// A child of this process.
    Child(Child),
    /// A process that was started by any process. Its number and its start time identify it.
    Other { pid: ProcessId, start: ProcessStart },
}

impl<K: Clone + Ord + Send + 'static> ExitWatcher<K> {
    /// Starts the thread. `on_exit` gets the key and the exit status, or `None` when other code in
    /// this process took the status (`waitpid(-1)`, an ignored `SIGCHLD`).
    ///
    /// # Errors
    /// When the system refuses a thread or descriptor.
    pub(crate) fn start(
        on_exit: impl FnMut(K, Option<ExitStatus>) + Send + 'static,
    ) -> io::Result<Self> {
        let state = Mutex::new(WatchedChildren {
            children: BTreeMap::new(),
            stopped: false,
        });
        let shared = Arc::new(WatcherState {
            bell: Mutex::new(Arc::new(Waker::new()?)),
            state,
        });
        let for_thread = Arc::clone(&shared);
        let thread = profiler_sys::spawn_quiet("profiler-exits", move || for_thread.run(on_exit))?;
        Ok(Self {
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Watches a child from now on. Take its pipes before this call.
    ///
    /// # Errors
    /// `AlreadyExists` for a key that is being watched, `BrokenPipe` after [`Self::stop`].
    pub(crate) fn watch(&self, key: K, child: Child) -> Result<(), WatchError> {
        let mut state = self.shared.lock();
        if let Some(kind) = state.refusal(&key) {
            return Err(WatchError {
                child,
                error: kind.into(),
            });
        }
        let handle = ChildHandle::open(&child).map(Arc::new);
        let subject = Subject::Child(child);
        state.children.insert(key, Watched { subject, handle });
        drop(state);
        self.shared.bell().ring();
        Ok(())
    }

    /// Watches a process that need not be a child of this one. `process` is a descriptor of it
    /// (pidfd).
    ///
    /// # Errors
    /// As [`Self::watch`]; `Unsupported` on systems other than Linux.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn watch_other(
        &self,
        key: K,
        process: OwnDescriptor<OwnedFd>,
        pid: ProcessId,
        start: ProcessStart,
    ) -> io::Result<()> {
        let handle = Some(Arc::new(ChildHandle::of_other(process, pid)?));
        let mut state = self.shared.lock();
        if let Some(kind) = state.refusal(&key) {
            return Err(kind.into());
        }
        let subject = Subject::Other { pid, start };
        state.children.insert(key, Watched { subject, handle });
        drop(state);
        self.shared.bell().ring();
        Ok(())
    }

    /// Number of watched processes that need not be children of this one.
    #[cfg_attr(
        not(all(target_os = "linux", not(profiler_portable))),
        allow(dead_code)
    )]
    pub(crate) fn others(&self) -> usize {
        let state = self.shared.lock();
        let others = state.children.values().filter(|one| one.is_other());
        others.count()
    }

    /// Stops watching a process, if it is one that need not be a child of this one: its exit is not
    /// reported.
    pub(crate) fn forget_other(&self, key: &K) {
        let mut state = self.shared.lock();
        if state.children.get(key).is_some_and(Watched::is_other) {
            state.children.remove(key);
            drop(state);
            self.shared.bell().ring(); // a wait that has begun holds the descriptor
        }
    }

    /// Kills a child at once. `false` if the child is not watched here: never was, has ended, or
    /// was taken.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn kill(&self, key: &K) -> io::Result<bool> {
        match self.shared.lock().children.get_mut(key) {
            None => Ok(false),
            Some(watched) => watched.signal(KILL).map(|()| true),
        }
    }

    /// Sends a child a signal. `false` if it is not watched: never was, or has ended.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn signal(&self, key: &K, signal: i32) -> io::Result<bool> {
        match self.shared.lock().children.get_mut(key) {
            None => Ok(false),
            Some(watched) => watched.signal(signal).map(|()| true),
        }
    }

    /// Stops watching and ends the thread. If the callback makes this call, the thread ends after
    /// the callback. Running children remain here, to be killed or signalled, until
    /// [`Self::take_children`].
    pub(crate) fn stop(&self) {
        self.end();
    }

    /// Takes the children that have not ended and are no longer watched.
    pub(crate) fn take_children(&self) -> Vec<(K, Child)> {
        let children = std::mem::take(&mut self.shared.lock().children);
        let children = children
            .into_iter()
            .filter_map(|(key, watched)| match watched.subject {
                Subject::Child(child) => Some((key, child)),
                Subject::Other { .. } => None,
            });
        children.collect()
    }
}

impl<K: Ord> WatchedChildren<K> {
    /// Why no process can be watched under this key.
    fn refusal(&self, key: &K) -> Option<io::ErrorKind> {
        match (self.stopped, self.children.contains_key(key)) {
            (true, _) => Some(io::ErrorKind::BrokenPipe),
            (_, true) => Some(io::ErrorKind::AlreadyExists),
            _ => None,
        }
    }
}

impl<K: Ord> ExitWatcher<K> {
    fn end(&self) {
        self.shared.lock().stopped = true;
        self.shared.bell().ring();
        let Some(thread) = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        else {
            return;
        };
        if !thread.is_current() {
            let _ = thread.join(); // its panics are caught on it
        }
    }
}

impl<K: Ord> Drop for ExitWatcher<K> {
    /// Ends the thread. Children that still run continue unwatched.
    fn drop(&mut self) {
        self.end();
    }
}

impl<K> WatcherState<K> {
    fn lock(&self) -> MutexGuard<'_, WatchedChildren<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bell(&self) -> Arc<Waker> {
        Arc::clone(&self.bell.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The waker, or a new one if the program has closed it.
    fn working_bell(&self) -> Arc<Waker> {
        let mut bell = self.bell.lock().unwrap_or_else(PoisonError::into_inner);
        if !bell.is_ours()
            && let Ok(new) = Waker::new()
        {
            *bell = Arc::new(new);
        }
        Arc::clone(&bell)
    }
}

/// The handles for one wait.
struct Round<K> {
    keys: Vec<K>,
    handles: Vec<Arc<ChildHandle>>,
    timeout: Duration,
}

impl<K: Clone + Ord> WatcherState<K> {
    fn run(&self, mut on_exit: impl FnMut(K, Option<ExitStatus>)) {
        loop {
            // Taken before the list, so that a child that is added after the list ends the wait.
            let bell = self.working_bell();
            let Some(round) = self.to_wait_for() else {
                return;
            };
            let woken = bell.wait(&round.handles, round.timeout);
            // If nothing happened, the program may have closed the descriptors of this wait.
            let is_overdue = !woken.rung && woken.children.is_empty();
            let ready = woken
                .children
                .iter()
                .filter_map(|place| round.keys.get(*place).cloned())
                .collect();
            drop(round);
            for (key, status) in self.take_ended(&ready, is_overdue) {
                // A panic of the callback must not lose later exits.
                let _ = catch_unwind(AssertUnwindSafe(|| on_exit(key, status)));
            }
        }
    }

    /// The handles for the next wait; `None` once stopped.
    fn to_wait_for(&self) -> Option<Round<K>> {
        let state = self.lock();
        let known = state
            .children
            .iter()
            .filter_map(|(key, one)| Some((key.clone(), one.handle.clone()?)));
        let (keys, handles): (Vec<K>, Vec<_>) = known.unzip();
        let all_known = handles.len() == state.children.len();
        let count = u32::try_from(handles.len()).unwrap_or(u32::MAX);
        let check = DESCRIPTOR_CHECK_PER_CHILD
            .saturating_mul(count)
            .max(DESCRIPTOR_CHECK);
        let timeout = if all_known { check } else { ASK_INTERVAL };
        (!state.stopped).then_some(Round {
            keys,
            handles,
            timeout,
        })
    }

    /// Removes and returns the children that have ended. Checks all children if `of_all`, otherwise
    /// those that are ready or have no handle.
    fn take_ended(&self, ready: &BTreeSet<K>, of_all: bool) -> Vec<(K, Option<ExitStatus>)> {
        let mut ended = Vec::new();
        let mut state = self.lock();
        for (key, watched) in &mut state.children {
            if !of_all && !ready.contains(key) && watched.handle.is_some() {
                continue;
            }
            match watched.reap() {
                Reaped::Running => {}
                Reaped::Ended(status) => ended.push((key.clone(), Some(status))),
                Reaped::Elsewhere => ended.push((key.clone(), None)),
            }
        }
        for (key, _) in &ended {
            state.children.remove(key);
        }
        ended
    }
}

impl Watched {
    const fn is_other(&self) -> bool {
        matches!(self.subject, Subject::Other { .. })
    }

    /// Returns its handle; a new one if the program has closed the old one.
    fn handle(&mut self) -> Option<&ChildHandle> {
        if self.handle.as_ref().is_some_and(|handle| !handle.is_ours()) {
            let new = match &self.subject {
                Subject::Child(child) => ChildHandle::open(child),
                Subject::Other { pid, start } => ChildHandle::reopen(*pid, *start),
            };
            self.handle = new.map(Arc::new);
        }
        self.handle.as_deref()
    }

    fn signal(&mut self, signal: i32) -> io::Result<()> {
        if let Some(handle) = self.handle() {
            return handle.signal(signal);
        }
        match &mut self.subject {
            Subject::Child(child) if signal == KILL => child.kill(),
            // The exit status is taken under the same lock, so the number still belongs to this
            // child.
            Subject::Child(child) => {
                crate::sys::signal_by_number(ProcessId::new(child.id()), signal)
            }
            Subject::Other { .. } => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn reap(&mut self) -> Reaped {
        let start = match &self.subject {
            Subject::Child(_) => None,
            Subject::Other { start, .. } => Some(*start),
        };
        match (self.handle(), start) {
            (Some(handle), None) => handle.reap(),
            (Some(handle), Some(start)) => handle.state_of_other(start),
            (None, _) => self.reap_without_handle(),
        }
    }

    fn reap_without_handle(&mut self) -> Reaped {
        match &mut self.subject {
            Subject::Child(child) => match child.try_wait() {
                Ok(None) => Reaped::Running,
                Ok(Some(status)) => Reaped::Ended(status),
                Err(_) => Reaped::Elsewhere,
            },
            Subject::Other { pid, start } => {
                let lives = crate::sys::facts_of(*pid).is_some_and(|facts| facts.start == *start);
                if lives {
                    Reaped::Running
                } else {
                    Reaped::Elsewhere
                }
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests;
