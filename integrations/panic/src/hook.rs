//! The panic hook: records the panic, then calls the hook that was there before.
//!
//! The order matters: the previous hook may abort, exit or never return.
//!
//! Invariant: the hook itself never panics. The standard library aborts at once if a hook does, and
//! catching the panic would not help. So what it calls takes no lock, uses no code of the host, and
//! returns errors.

use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::recording::record;

/// Whether a hook of this crate exists, installed or kept by another hook.
static EXISTS: AtomicBool = AtomicBool::new(false);

/// Clears [`EXISTS`] when the hook that has it is dropped.
struct Existence;

impl Drop for Existence {
    fn drop(&mut self) {
        EXISTS.store(false, Ordering::Release);
    }
}

/// Lets the profiler record panics from now on. The panic hook that is there is kept, and called
/// after the panic was recorded.
///
/// Does nothing if the hook of this crate exists, on a thread that is panicking, and without the
/// feature `enabled`. Call it after other hooks are installed, so that none of them replaces it. A
/// panic on another thread during the call may be reported by the standard library's hook.
pub fn install() {
    // The standard library allows a thread that is panicking no change of the hook.
    if !cfg!(feature = "enabled") || std::thread::panicking() {
        return;
    }
    if EXISTS.swap(true, Ordering::AcqRel) {
        return;
    }
    let existence = Existence;
    let previous = take_hook();
    set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        let _ = &existence; // dropped with the hook
        let recorded = record(info);
        previous(info);
        if let Some(recorded) = recorded {
            recorded.hook_returned();
        }
    }));
}
