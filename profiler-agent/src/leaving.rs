//! The profiler leaves a process that runs on: it stops recording for good, and its threads end.
//!
//! Called by [`crate::replaced`] on a thread of the program, before a call for which the profiler's
//! threads would be in the way, and by the function for C. What was recorded stays in the profile.
//! Invariants: [`leave`] waits for a limited time; after it, nothing of the profiler runs in the
//! process, unless the session has not answered a thread that asks to join and the system is very
//! slow.

#![allow(unsafe_code)]

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::{forks, later, rights};

/// The longest wait for one kind of threads.
const PATIENCE: Duration = Duration::from_secs(1);

/// The process in which threads of the profiler may exist; 0 if there is none. In a forked child
/// without such threads, and in the child of a `vfork`, it is another process.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Notes that threads of the profiler may exist in this process from now on, with the rights of the
/// calling thread. Reads and writes atomics, and makes system calls.
pub(crate) fn enter() {
    rights::note();
    OWNER.store(std::process::id(), Ordering::Release);
}

/// Whether threads of the profiler may exist in this process.
pub(crate) fn is_here() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner != 0 && owner == std::process::id()
}

/// Ends the profiler in this process. Not in a signal handler: it takes locks and allocates.
pub(crate) fn leave() {
    if !is_here() {
        return;
    }
    let _ = catch_unwind(|| {
        later::give_up();
        profiler_child::leave(PATIENCE);
        if later::has_thread() {
            // It has not yet the name by which it was looked for.
            later::await_end(PATIENCE);
            profiler_child::leave(PATIENCE);
        }
        forks::give_up(PATIENCE);
    });
    OWNER.store(0, Ordering::Release);
}
