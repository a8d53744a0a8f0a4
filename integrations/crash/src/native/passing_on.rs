//! Gives a signal the effect that it has without this crate.

#![allow(unsafe_code)]

use libc::c_int;

use super::actions::{Handler, install_again, is_handler, put_back, set_default};
use super::cause::Cause;

/// Calls the earlier handler, or lets the default action end the process when the handler returns.
///
/// # Safety
/// The arguments are those of a handler that runs now.
pub(super) unsafe fn pass_on(
    before: &libc::sigaction,
    (signal, cause): (c_int, Cause),
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    if !is_handler(before) {
        return die_after_return(signal, cause);
    }
    // A handler often ends with an abort. Its frame would not fit on the rest of a small alternate
    // stack.
    let is_put_back = signal != libc::SIGABRT && put_back(libc::SIGABRT);
    if before.sa_flags & libc::SA_RESETHAND != 0 {
        set_default(signal);
    }
    // SAFETY: the caller's promise.
    set_mask(unsafe { interrupted_mask(context) } | mask_of(before, signal));
    // SAFETY: the caller's promise.
    unsafe { call(before, signal, info, context) };
    if is_put_back {
        install_again(libc::SIGABRT);
    }
}

/// # Safety
/// The arguments are those of a handler that runs now, and `before` is a handler.
unsafe fn call(
    before: &libc::sigaction,
    signal: c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let handler = before.sa_sigaction;
    if before.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program installed it as a handler of three arguments.
        let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
        // SAFETY: the arguments are those of the kernel.
        unsafe { handler(signal, info, context) };
    } else {
        // SAFETY: the program installed it as a handler of one argument.
        let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
        handler(signal);
    }
}

/// Lets the default action end the process when the handler returns, with the registers and the
/// stack of the crash. An instruction that crashes again needs no signal.
fn die_after_return(signal: c_int, cause: Cause) {
    set_default(signal);
    if !cause.repeats() {
        // Blocked until the handler returns, which restores the mask.
        set_mask(!0);
        send(signal);
    }
}

/// Ends the process by the default action of the signal.
pub(super) fn die_now(signal: c_int) -> ! {
    set_default(signal);
    set_mask(!bit(signal));
    send(signal);
    // The default action of these signals ends the process. A process with the number 1 in its
    // namespace does not die of a signal that it sends to itself.
    // SAFETY: ends the process.
    unsafe { libc::_exit(128 + signal) }
}

/// Sends a signal to the calling thread, as `raise` does.
fn send(signal: c_int) {
    // SAFETY: has no arguments and cannot fail.
    let process = unsafe { libc::getpid() };
    // SAFETY: as above.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    // SAFETY: sends a signal to the calling thread only.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
}

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
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

/// The signals that the interrupted thread has blocked.
///
/// # Safety
/// `context` is the one passed to a handler that runs now.
unsafe fn interrupted_mask(context: *const libc::c_void) -> u64 {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the caller's promise.
    let mask = unsafe { &raw const (*context).uc_sigmask };
    // SAFETY: the kernel's mask is the first 64 bits of the C library's.
    unsafe { mask.cast::<u64>().read() }
}

/// Sets the signal mask of the calling thread.
fn set_mask(mask: u64) {
    // SAFETY: the kernel reads 8 bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            std::ptr::null_mut::<u64>(),
            size_of::<u64>(),
        )
    };
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
