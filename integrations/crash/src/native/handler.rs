//! The signal handler: records the crash, then passes the signal on.
//!
//! Invariants: it allocates nothing, takes no lock, waits a bounded time, does not panic, and keeps
//! `errno`. A sample that comes as a signal of a crash passes through.

#![allow(unsafe_code)]

use libc::c_int;
use profiler_sys::keeping_errno;

use super::actions::before;
use super::cause::Cause;
use super::crash_marker::CrashFacts;
use super::passing_on::pass_on;
use super::recording::record;
use super::registers::stack_pointer;

/// The handler of all signals of crashes.
///
/// # Safety
/// Called by the system.
pub(super) unsafe extern "C" fn on_crash(
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    keeping_errno(|| {
        // SAFETY: the kernel passed it to us, and it lives until we return.
        let cause = unsafe { Cause::of(signal, info) };
        let Some(before) = before(signal) else {
            return;
        };
        if !cause.is_sample() {
            // SAFETY: the kernel passed the context to us, and it lives until we return.
            unsafe { note(signal, cause, context.cast_const().cast()) };
        }
        // SAFETY: the arguments that the kernel passed to us.
        unsafe { pass_on(before, (signal, cause), info, context) };
    });
}

/// # Safety
/// `context` is the one that the kernel passed to a handler that still runs on this thread.
unsafe fn note(signal: c_int, cause: Cause, context: *const libc::ucontext_t) {
    // SAFETY: the caller's promise.
    let stack_pointer = unsafe { stack_pointer(context) };
    let facts = CrashFacts {
        signal: cause.signal_name(),
        reason: cause.text(stack_pointer),
        address: cause.address(),
    };
    // SAFETY: the caller's promise.
    unsafe { record(signal, facts, context) };
}
