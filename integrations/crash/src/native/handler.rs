//! The signal handler: records the crash, then passes the signal on.
//!
//! Invariants: it takes no lock, waits a bounded time, and keeps `errno`. It allocates nothing and
//! does not panic, as far as the unwinder has no error: `docs/failure-modes.md`. A sample that
//! comes as a signal of a crash passes through.

#![allow(unsafe_code)]

use libc::c_int;
use profiler_sys::keeping_errno;

use super::actions::{before, is_handler};
use super::arrived::{Arrived, cause_of};
use super::earlier_handlers;
use super::passing_on::{call, pass_on};
use super::recording::{interrupts, record};
use super::registers::stack_pointer;
use super::system::{is_first_process, own_thread};

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
        let arrived = Arrived {
            signal,
            // SAFETY: the kernel passed it to us, and it lives until we return.
            cause: unsafe { cause_of(signal, info) },
            info,
            context: context.cast(),
        };
        // SAFETY: the kernel passed the arguments to us.
        unsafe { handle(&arrived) };
    });
}

/// # Safety
/// The signal is handled on this thread now.
unsafe fn handle(arrived: &Arrived) {
    let Some(before) = before(arrived.signal) else {
        return;
    };
    // SAFETY: the caller's promise.
    if unsafe { interrupts(arrived) } || (!is_handler(before) && is_without_effect(arrived)) {
        return;
    }
    if arrived.cause.is_sample() && is_handler(before) {
        // SAFETY: the caller's promise, and the action is a handler.
        return unsafe { call(before, arrived) };
    }
    // SAFETY: the caller's promise.
    let is_end_of_handler = unsafe { is_end_of_handler(arrived) };
    if !is_end_of_handler {
        // SAFETY: the caller's promise.
        unsafe { record(arrived) };
    }
    // SAFETY: the caller's promise.
    unsafe { pass_on(before, arrived) };
}

/// Whether the system drops a signal with the default action: the process has the number 1, and the
/// signal reports no fault.
fn is_without_effect(arrived: &Arrived) -> bool {
    arrived.cause.is_sent() && is_first_process()
}

/// Whether an earlier handler of another signal has called `abort`.
///
/// # Safety
/// The signal is handled on this thread now.
unsafe fn is_end_of_handler(arrived: &Arrived) -> bool {
    // SAFETY: the caller's promise.
    let stack_pointer = unsafe { stack_pointer(arrived.context) };
    arrived.signal == libc::SIGABRT && earlier_handlers::have_called(own_thread(), stack_pointer)
}
