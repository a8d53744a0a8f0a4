//! The session's address, and the thread behind it. Linux.
//!
//! The session creates a [`JoinService`] when its address is first needed, and stops it at its end.
//! Invariant: after [`JoinService::stop`], no process can join, and the files of the address are
//! gone unless the thread is stuck.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use ipc_protocol::environment::{SessionAddress, Token};
use ipc_protocol::transport::joining::SessionListener;
use ipc_protocol::transport::ready::ReadySet;
use profiler_core::internal::sys::spawn_quiet;

use super::SessionAddressError;
use super::admission::Admission;
use super::thread::JoinThread;
use crate::supervisor::{SupervisorContext, SupervisorHandle};

/// How long the end of a session waits for the thread.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// How long a capture waits for the thread, which waits for no process: only a busy machine needs
/// more than a millisecond.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(1);

/// The session's address, and the thread behind it.
#[derive(Debug)]
pub(crate) struct JoinService {
    address: SessionAddress,
    mailbox: Arc<Mailbox>,
    /// Disconnected when the thread no longer lets processes join.
    ended: crossbeam_channel::Receiver<()>,
}

/// The state that the thread shares with the session.
#[derive(Debug)]
pub(super) struct Mailbox {
    set: Mutex<Arc<ReadySet>>,
    is_stopped: AtomicBool,
    /// Captures that wait until all processes are met that have connected before.
    waiting: Mutex<Vec<Sender<()>>>,
}

impl JoinService {
    /// Makes an address and starts the thread.
    ///
    /// # Errors
    /// [`SessionAddressError`].
    pub(crate) fn start(
        context: Arc<SupervisorContext>,
        supervisor: SupervisorHandle,
    ) -> Result<Self, SessionAddressError> {
        let listener = SessionListener::new()?;
        let token = Token::generate()?;
        let address = SessionAddress::new(listener.path().to_owned(), token.clone());
        let mailbox = Arc::new(Mailbox {
            set: Mutex::new(Arc::new(ReadySet::new()?)),
            is_stopped: AtomicBool::new(false),
            waiting: Mutex::default(),
        });
        let arrivals = Arc::clone(&mailbox);
        context.processes.set_arrivals(move || arrivals.wait());
        let admission = Admission::new(context, supervisor);
        let thread = JoinThread::new(Arc::clone(&mailbox), listener, token, admission);
        let (running, ended) = crossbeam_channel::bounded(0);
        spawn_quiet("profiler-join", move || thread.run(running))?;
        Ok(Self {
            address,
            mailbox,
            ended,
        })
    }

    /// The address for the environment of processes.
    pub(crate) const fn address(&self) -> &SessionAddress {
        &self.address
    }

    /// Ends the thread and removes the address. Waits at most [`STOP_PATIENCE`].
    pub(crate) fn stop(&self) {
        self.mailbox.is_stopped.store(true, Ordering::SeqCst);
        let set = Arc::clone(&self.mailbox.set()); // `wake` runs without the lock
        set.wake();
        let _ = self.ended.recv_timeout(STOP_PATIENCE);
    }
}

impl Drop for JoinService {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Mailbox {
    /// Waits, for at most [`ARRIVAL_PATIENCE`], until the thread has met all processes that have
    /// connected until now.
    fn wait(&self) {
        if self.is_stopped() {
            return;
        }
        let (sender, met) = bounded(0);
        self.waiting().push(sender);
        let set = Arc::clone(&self.set()); // `wake` runs without the lock
        set.wake();
        let _ = met.recv_timeout(ARRIVAL_PATIENCE);
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Sender<()>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The captures that wait. They go on when these are dropped.
    pub(super) fn take_waiting(&self) -> Vec<Sender<()>> {
        std::mem::take(&mut self.waiting())
    }

    /// The set that the thread waits for.
    pub(super) fn set(&self) -> MutexGuard<'_, Arc<ReadySet>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the session is over.
    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }
}
