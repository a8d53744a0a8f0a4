//! Calls of the system that a signal handler makes.
//!
//! Invariant: no call allocates, takes a lock, or is a cancellation point of the C library.

#![allow(unsafe_code)]

use std::ptr;

use libc::c_int;

/// The entry of the auxiliary vector with the size of a signal's frame.
const AT_MINSIGSTKSZ: libc::c_ulong = 51;
/// The size of a signal's frame on systems that do not tell.
const SIGNAL_FRAME: u64 = 4096;

/// The bit of a signal in a mask.
pub(super) const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Sets the signal mask of the calling thread; returns the one before.
pub(super) fn set_mask(mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel reads and writes 8 bytes.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            &raw mut before,
            size_of::<u64>(),
        )
    };
    before
}

/// The mask that a thread gets back when the handler returns.
///
/// # Safety
/// `context` is the one passed to a handler that runs now.
pub(super) unsafe fn interrupted_mask(context: *mut libc::ucontext_t) -> *mut u64 {
    // SAFETY: the caller's promise. The kernel's mask is the first 64 bits of the C library's.
    unsafe { (&raw mut (*context).uc_sigmask).cast() }
}

/// The number of the calling thread.
pub(super) fn own_thread() -> c_int {
    // SAFETY: has no arguments and cannot fail.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    c_int::try_from(thread).unwrap_or(0)
}

/// Whether this process has the number 1, so that the system drops signals with a default action.
pub(super) fn is_first_process() -> bool {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::getpid() == 1 }
}

/// Sends a signal to the calling thread once more, with the data that it came with.
///
/// # Safety
/// `info` is the one that the kernel passed to a handler that still runs.
pub(super) unsafe fn send_again(signal: c_int, info: *const libc::siginfo_t) {
    // SAFETY: has no arguments and cannot fail.
    let process = unsafe { libc::getpid() };
    let thread = own_thread();
    // SAFETY: reads the data of the signal, and sends it to the calling thread only.
    let failed =
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info) } != 0;
    if failed {
        // SAFETY: sends a signal to the calling thread only.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    }
}

/// Sleeps for a millisecond.
pub(super) fn sleep_briefly() {
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    // SAFETY: reads the time, and sleeps.
    unsafe {
        libc::syscall(
            libc::SYS_nanosleep,
            &raw const pause,
            ptr::null_mut::<libc::timespec>(),
        )
    };
}

/// The size of the frame that the system puts on a stack for a signal.
pub(super) fn signal_frame_bytes() -> u64 {
    // SAFETY: reads a value that was set before the process started; 0 if there is none.
    let bytes = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
    bytes.max(SIGNAL_FRAME)
}
