//! A signal that is handled on the calling thread.

#![allow(unsafe_code)]

use libc::c_int;
use profiler_sys::CrashCause;

/// A signal that is handled on this thread now: what it reports, and the arguments of the system.
pub(super) struct Arrived {
    pub(super) signal: c_int,
    pub(super) cause: CrashCause,
    pub(super) info: *mut libc::siginfo_t,
    pub(super) context: *mut libc::ucontext_t,
}

/// Reads the data of a signal.
///
/// # Safety
/// `info` is the one that the kernel passed to a handler that still runs.
pub(super) unsafe fn cause_of(signal: c_int, info: *const libc::siginfo_t) -> CrashCause {
    // SAFETY: the caller's promise.
    let info = unsafe { &*info };
    // SAFETY: the signals of faults have an address; for others, the word is not used.
    let address = unsafe { info.si_addr() } as u64;
    CrashCause::new(signal, info.si_code, address)
}
