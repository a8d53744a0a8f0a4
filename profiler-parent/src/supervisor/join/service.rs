//! The session's address, and the thread behind it. Linux.
//!
//! The session creates a [`JoinService`] when its address is first needed, and drops it at its end.
//! Invariants: after that, no process can join, and the files of the address are gone unless the
//! thread is stuck; no call waits for a thread that has ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Sender, bounded};
use ipc_protocol::environment::{SessionAddress, Token};
use ipc_protocol::transport::joining::SessionListener;
use ipc_protocol::transport::ready::ReadySet;
use profiler_sys::spawn_quiet;

use super::SessionAddressError;
use super::admission::Admission;
use super::thread::JoinThread;
use crate::process_table::{ArrivalSource, ProcessTable};
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
    processes: Arc<ProcessTable>,
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
        let processes = Arc::clone(&context.processes);
        let admission = Admission::new(context, supervisor);
        let thread = JoinThread::new(Arc::clone(&mailbox), listener, token, admission);
        let (running, ended) = crossbeam_channel::bounded(0);
        let end = EndsWaiting(Arc::clone(&mailbox));
        spawn_quiet("profiler-join", move || {
            thread.run(running);
            drop(end); // also if the thread panics, or does not start
        })?;
        let arrivals = Arc::clone(&mailbox);
        processes.set_arrivals(ArrivalSource::Joining, move || {
            arrivals.wait();
            0 // a process that has not joined waits for the session, too
        });
        Ok(Self {
            address,
            mailbox,
            processes,
            ended,
        })
    }

    /// The address for the environment of processes.
    pub(crate) const fn address(&self) -> &SessionAddress {
        &self.address
    }
}

impl Drop for JoinService {
    /// Ends the thread and removes the address. Waits at most [`STOP_PATIENCE`].
    fn drop(&mut self) {
        self.processes.clear_arrivals(ArrivalSource::Joining); // it holds descriptors
        self.mailbox.end();
        let set = Arc::clone(&self.mailbox.set()); // `wake` runs without the lock
        set.wake();
        let _ = self.ended.recv_timeout(STOP_PATIENCE);
    }
}

/// Ends the waiting of captures when it is dropped with the thread.
struct EndsWaiting(Arc<Mailbox>);

impl Drop for EndsWaiting {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Mailbox {
    /// Waits, for at most [`ARRIVAL_PATIENCE`], until the thread has met all processes that have
    /// connected until now.
    fn wait(&self) {
        let (sender, met) = bounded(0);
        let mut waiting = self.waiting();
        if self.is_stopped() {
            return;
        }
        waiting.push(sender);
        drop(waiting);
        let set = Arc::clone(&self.set()); // `wake` runs without the lock
        set.wake();
        let _ = met.recv_timeout(ARRIVAL_PATIENCE);
    }

    /// Ends the thread, and the waiting for it.
    fn end(&self) {
        let mut waiting = self.waiting();
        self.is_stopped.store(true, Ordering::SeqCst);
        waiting.clear();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_does_not_wait_for_a_thread_that_has_ended() {
        let mailbox = Arc::new(Mailbox {
            set: Mutex::new(Arc::new(ReadySet::new().unwrap())),
            is_stopped: AtomicBool::new(false),
            waiting: Mutex::default(),
        });
        let capture = {
            let mailbox = Arc::clone(&mailbox);
            spawn_quiet("capture", move || mailbox.wait()).unwrap()
        };
        let thread = {
            let end = EndsWaiting(Arc::clone(&mailbox));
            let wait_and_end = move || {
                while end.0.waiting().is_empty() {
                    std::thread::yield_now(); // the capture begins to wait
                }
                std::panic::resume_unwind(Box::new(())); // without a message
            };
            spawn_quiet("join", wait_and_end).unwrap()
        };
        assert!(thread.join().is_err());
        assert!(mailbox.waiting().is_empty(), "it waits no more");
        capture.join().unwrap();
        mailbox.wait();
        assert!(
            mailbox.waiting().is_empty(),
            "a later one does not begin to wait"
        );
    }
}
