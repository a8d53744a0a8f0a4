//! Ending in order: the parent learns that nothing more will come.
//!
//! Called by the host, or by the C library when the process exits by itself. The data stays in
//! the pool, from which the parent reads it whenever it captures; nothing is written or waited for
//! here, so an exit takes no longer than without the profiler.

#![allow(unsafe_code)]

use std::sync::{Mutex, PoisonError};

use ipc_protocol::message::ToParent;
use profiler_core::session;

use crate::control::Outgoing;

static OUTGOING: Mutex<Option<Outgoing>> = Mutex::new(None);

/// Stops recording for good and tells the parent so. Called by itself at a normal exit.
///
/// The message says that there are 0 bytes in the outbox: the pool holds everything.
pub fn shutdown() {
    if session::is_forked() {
        return; // the pool, the channel and the locks are the parent's
    }
    session::close_pool();
    let outgoing = OUTGOING.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(outgoing) = outgoing {
        outgoing.send(&ToParent::ShutdownProfile { length: 0 });
    }
}

pub(crate) fn set_outgoing(outgoing: Outgoing) {
    *OUTGOING.lock().unwrap_or_else(PoisonError::into_inner) = Some(outgoing);
}

/// Has [`shutdown`] called when the process exits by itself.
pub(crate) fn register() {
    // SAFETY: the handler is a static function; registering allocates and cannot run it.
    unsafe { libc::atexit(at_exit) };
}

extern "C" fn at_exit() {
    // A panic must not cross into C. There is none to expect; if there is, exiting goes on.
    let _ = std::panic::catch_unwind(shutdown);
}
