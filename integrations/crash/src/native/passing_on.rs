//! Gives a signal the effect that it has without this crate.
//!
//! Invariant: no action of another signal is changed.

#![allow(unsafe_code)]

use libc::c_int;

use super::actions::{Handler, is_first_call, is_handler, reset, set_default};
use super::arrived::Arrived;
use super::system::{bit, interrupted_mask, is_first_process, own_thread, send_again, set_mask};
use super::{alternate_stack, earlier_handlers};

/// Calls the earlier handler, or lets the default action end the process when the handler returns.
///
/// # Safety
/// The signal is handled on this thread now.
pub(super) unsafe fn pass_on(before: &libc::sigaction, arrived: &Arrived) {
    if !is_handler(before) {
        // SAFETY: the caller's promise.
        return unsafe { die_after_return(arrived) };
    }
    if before.sa_flags & libc::SA_RESETHAND != 0 {
        if !is_first_call(arrived.signal) {
            // SAFETY: the caller's promise.
            return unsafe { die_after_return(arrived) };
        }
        reset(arrived.signal);
    }
    // SAFETY: the kernel has filled the context in. The handler runs on the stack that has it.
    let room = unsafe { alternate_stack::make_room(arrived.context) };
    let frame = arrived.context.addr() as u64;
    // SAFETY: the caller's promise, and `before` is a handler.
    earlier_handlers::run(own_thread(), frame, || unsafe { call(before, arrived) });
    drop(room);
}

/// Calls an earlier handler.
///
/// # Safety
/// The signal is handled on this thread now, and `before` is a handler.
pub(super) unsafe fn call(before: &libc::sigaction, arrived: &Arrived) {
    let (signal, handler) = (arrived.signal, before.sa_sigaction);
    // SAFETY: the caller's promise.
    let mask = unsafe { interrupted_mask(arrived.context) };
    // SAFETY: the kernel has filled the mask in.
    let interrupted = unsafe { mask.read() };
    set_mask(interrupted | mask_of(before, signal));
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program installed it as a handler of three arguments.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
        // SAFETY: the arguments are those of the kernel.
        unsafe { handler(signal, arrived.info, arrived.context.cast()) };
    } else {
        // SAFETY: the program installed it as a handler of one argument.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
        handler(signal);
    }
}

/// Lets the default action end the process when the handler returns, with the registers, the stack
/// and the data of the crash: the signal is sent again, and waits until then.
///
/// # Safety
/// The signal is handled on this thread now.
unsafe fn die_after_return(arrived: &Arrived) {
    let signal = arrived.signal;
    if is_first_process() {
        return die_as_first_process(arrived);
    }
    set_default(signal);
    set_mask(!0);
    // SAFETY: the caller's promise.
    let mask = unsafe { interrupted_mask(arrived.context) };
    // The thread may have waited with another mask (`sigsuspend`).
    // SAFETY: the kernel has filled the mask in, and reads it when the handler returns.
    unsafe { *mask &= !bit(signal) };
    // SAFETY: the caller's promise.
    unsafe { send_again(signal, arrived.info) };
}

/// A process with the number 1 dies only of faults: the system drops the signals that it sends to
/// itself. A fault that may not repeat ends it with an exit code.
fn die_as_first_process(arrived: &Arrived) {
    if arrived.cause.is_sent() {
        return;
    }
    set_default(arrived.signal);
    if !arrived.cause.repeats() {
        // SAFETY: ends the process.
        unsafe { libc::_exit(128 + arrived.signal) }
    }
}

/// The signals that an action blocks while its handler runs.
fn mask_of(action: &libc::sigaction, signal: c_int) -> u64 {
    // SAFETY: the set is at least 64 bits long on every system of this module.
    let asked = unsafe { (&raw const action.sa_mask).cast::<u64>().read() };
    if action.sa_flags & libc::SA_NODEFER != 0 {
        asked
    } else {
        asked | bit(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_has_the_mask_that_it_asks_for() {
        // SAFETY: all zeros are an action without flags and with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        assert_eq!(mask_of(&action, libc::SIGSEGV), bit(libc::SIGSEGV));
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, libc::SIGUSR1) };
        action.sa_flags = libc::SA_NODEFER;
        assert_eq!(mask_of(&action, libc::SIGSEGV), bit(libc::SIGUSR1));
    }
}
