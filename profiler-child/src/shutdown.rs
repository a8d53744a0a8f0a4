//! The end of the process, and an earlier end of the profiler at the host's request.
//!
//! At an exit the profiler only uses atomics, because a signal handler that interrupted any code
//! may call `exit`. The data stays in the pool, and the system tells the parent that the process
//! has ended. [`shutdown`], which the host calls from ordinary code, also ends recording and
//! notifies the parent. [`leave`], which the agent calls, ends all threads of the profiler as well.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ipc_protocol::message::ToParent;
use profiler_core::session;
use profiler_sys::Renewable;

use crate::outgoing::Outgoing;
use crate::{io_thread, own_threads};

static OUTGOING: Renewable<Mutex<Option<Outgoing>>> = Renewable::new(Mutex::new(None));
/// Whether [`leave`] was called.
static LEFT: AtomicBool = AtomicBool::new(false);
/// Whether [`shutdown`] was called.
static SHUT_DOWN: AtomicBool = AtomicBool::new(false);
/// How long [`shutdown`] waits for the I/O thread.
const SEND_WAIT: Duration = Duration::from_secs(1);
/// How long [`leave`] waits between two looks.
const PAUSE: Duration = Duration::from_micros(100);
/// Whether [`at_exit`] is registered. A forked child inherits it.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Stops recording permanently and notifies the parent. A call before an exit is not needed.
///
/// Waits for threads of the profiler, allocates and takes locks. **Do not call it in a signal
/// handler** or in the child of a `vfork`; `exit` may be called there.
///
/// The message says that there are 0 bytes in the part file: the pool holds all data.
pub fn shutdown() {
    if session::is_forked() {
        return; // the pool, the channel and the locks are the parent's
    }
    // First: a thread that is about to join a session then does not record.
    SHUT_DOWN.store(true, Ordering::SeqCst);
    session::close_pool();
    let outgoing = OUTGOING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(outgoing) = outgoing {
        // The channel is dropped there, too.
        io_thread::run_where_possible(SEND_WAIT, move || {
            outgoing.send(&ToParent::ShutdownProfile { length: 0 });
            if has_left().load(Ordering::SeqCst) {
                outgoing.hang_up();
            }
        });
    }
}

/// Like [`shutdown`], and waits until no thread of the profiler exists, for at most `patience`.
/// Returns whether none does. The process does not record any more, even if a thread of it is about
/// to join a session.
pub fn leave(patience: Duration) -> bool {
    if session::is_forked() {
        return true; // the threads are the parent's
    }
    // First: a thread that begins to record, or to serve the parent, then ends itself.
    LEFT.store(true, Ordering::SeqCst);
    shutdown();
    io_thread::end();
    let pauses = patience.as_micros() / PAUSE.as_micros();
    (0..=pauses).any(|_| {
        let is_alone = !own_threads::are_there();
        if !is_alone {
            std::thread::sleep(PAUSE);
        }
        is_alone
    })
}

/// Whether the profiler has ended in this process: [`shutdown`] or [`leave`] was called.
pub(crate) fn has_ended() -> bool {
    LEFT.load(Ordering::SeqCst) || SHUT_DOWN.load(Ordering::SeqCst)
}

/// Whether [`leave`] was called.
pub(crate) fn has_left() -> &'static AtomicBool {
    &LEFT
}

pub(crate) fn set_outgoing(outgoing: Outgoing) {
    *OUTGOING.lock().unwrap_or_else(PoisonError::into_inner) = Some(outgoing);
    // The one or the other call finds the channel.
    if has_ended() {
        shutdown();
    }
}

/// In a forked child that begins anew: forgets the parent's channel, whose lock may be held
/// forever, and that the profiler has ended in the parent.
pub(crate) fn forget_parent() {
    LEFT.store(false, Ordering::SeqCst);
    SHUT_DOWN.store(false, Ordering::SeqCst);
    OUTGOING.renew(Mutex::new(None));
}

/// Registers a handler that closes the pool when the process exits, once.
pub(crate) fn register() {
    if !IS_REGISTERED.swap(true, Ordering::AcqRel) {
        // SAFETY: the handler is a static function; registering allocates and cannot run it.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Runs inside `exit`: see the [module](self).
extern "C" fn at_exit() {
    session::close_at_exit();
}
