//! Keeps forks and the load of a library apart.
//!
//! The system's loader changes its lists of libraries while it loads one. A process that is forked
//! at this moment has the lists half changed, and the next load in it crashes. `forks` closes a
//! gate while it loads a copy of the agent; the handlers of forks pass the gate. Invariants: every
//! wait has a bound; after it, a fork goes on and is told, and a load is given up. All functions
//! use atomics and `nanosleep` only. A thread that holds a lock of the loader or of an allocator
//! and forks during a load waits until the bound.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Set while a load is in progress or waits. The other bits are the number of forks in progress.
const CLOSED: u32 = 1 << 31;
/// The number of pauses after which a wait ends: 0.1 s. A load takes about a millisecond.
const PAUSES: u32 = 500;
static PAUSE: libc::timespec = libc::timespec {
    tv_sec: 0,
    tv_nsec: 200_000,
};

#[derive(Debug)]
pub(crate) struct ForkGate(AtomicU32);

impl ForkGate {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// A fork begins. Waits while a load is in progress. False if the load was not over in time.
    pub(crate) fn enter(&self) -> bool {
        let enters = |word| (word & CLOSED == 0).then(|| word + 1);
        let try_enter = || {
            let entered = self
                .0
                .fetch_update(Ordering::Acquire, Ordering::Relaxed, enters);
            entered.is_ok()
        };
        let has_entered = is_true_in_time(try_enter);
        if !has_entered {
            self.0.fetch_add(1, Ordering::Acquire);
        }
        has_entered
    }

    /// A fork is over, in the process that has forked.
    pub(crate) fn leave(&self) {
        let leaves = |word| (word & !CLOSED != 0).then(|| word - 1);
        // It fails only if the handler for the beginning of the fork was not called.
        let _ = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, leaves);
    }

    /// A fork is over, in the forked process: it has no other threads.
    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// A load begins. Waits until no fork is in progress. False, and open again, if the forks were
    /// not over in time.
    pub(crate) fn close(&self) -> bool {
        self.0.fetch_or(CLOSED, Ordering::AcqRel);
        let is_closed = is_true_in_time(|| self.0.load(Ordering::Acquire) == CLOSED);
        if !is_closed {
            self.open();
        }
        is_closed
    }

    /// The load is over.
    pub(crate) fn open(&self) {
        self.0.fetch_and(!CLOSED, Ordering::Release);
    }
}

/// Whether the condition becomes true before [`PAUSES`] pauses are over.
fn is_true_in_time(is_true: impl Fn() -> bool) -> bool {
    is_true()
        || (0..PAUSES).any(|_| {
            // SAFETY: reads a static value. An early end of the pause is harmless.
            unsafe { libc::nanosleep(&raw const PAUSE, ptr::null_mut()) };
            is_true()
        })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use profiler_core::internal::sys::spawn_quiet;

    use super::*;

    #[test]
    fn no_fork_begins_during_a_load_and_no_load_during_a_fork() {
        static GATE: ForkGate = ForkGate::new();
        static LOADS: AtomicBool = AtomicBool::new(false);
        static FORKS: AtomicBool = AtomicBool::new(false);
        let forks = || {
            for _ in 0..2000 {
                if GATE.enter() {
                    FORKS.store(true, Ordering::SeqCst);
                    assert!(!LOADS.load(Ordering::SeqCst));
                    FORKS.store(false, Ordering::SeqCst);
                }
                GATE.leave();
            }
        };
        let forking = spawn_quiet("forking", forks).unwrap();
        while !forking.is_finished() {
            if GATE.close() {
                LOADS.store(true, Ordering::SeqCst);
                assert!(!FORKS.load(Ordering::SeqCst));
                LOADS.store(false, Ordering::SeqCst);
                GATE.open();
            }
        }
        forking.join().unwrap();
        assert_eq!(GATE.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn waits_at_the_gate_end() {
        let gate = ForkGate::new();
        assert!(gate.close());
        assert!(!gate.enter(), "the load is in progress");
        gate.open();
        assert!(!gate.close(), "the fork is in progress");
        gate.leave();
        gate.leave(); // no handler was called when this fork began
        assert!(gate.close());
        gate.forget();
        assert!(gate.enter());
    }
}
