//! What this process had when it began, before the standard library changed it.
//!
//! Before `main`, the standard library ignores `SIGPIPE` and opens `/dev/null` in place of closed
//! standard streams. The programs of `record` must inherit what the command has inherited, so a
//! function that the loader calls earlier notes both. Invariant: the function only makes system
//! calls and stores their results.

#![allow(unsafe_code)]

#[cfg(target_os = "linux")]
use std::ffi::c_char;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicPtr, AtomicUsize};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The ignored signals: bit `N - 1` is signal `N`.
static IGNORED: AtomicU64 = AtomicU64::new(0);
/// The closed standard streams: bit `N` is descriptor `N`.
static CLOSED: AtomicU8 = AtomicU8::new(0);
/// The first argument, where the system shows it, and the bytes of all arguments.
#[cfg(target_os = "linux")]
static ARGUMENTS: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
#[cfg(target_os = "linux")]
static ARGUMENT_BYTES: AtomicUsize = AtomicUsize::new(0);

#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: unsafe extern "C" fn(i32, *const *mut c_char) = note;

/// Whether this process began with a signal ignored. `false` on systems where that is not noted.
pub(crate) fn ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) & bit(signal) != 0
}

/// The standard streams that were closed when this process began.
pub(crate) fn closed_streams() -> impl Iterator<Item = i32> {
    let closed = CLOSED.load(Ordering::Relaxed);
    (0..3).filter(move |stream| closed & (1 << stream) != 0)
}

/// Where the system reads the arguments that it shows, and their bytes. Empty where that is not
/// noted.
#[cfg(target_os = "linux")]
pub(crate) fn shown_arguments() -> (*mut u8, usize) {
    let bytes = ARGUMENT_BYTES.load(Ordering::Relaxed);
    (ARGUMENTS.load(Ordering::Relaxed), bytes)
}

fn bit(signal: i32) -> u64 {
    let shift = u32::try_from(signal - 1).unwrap_or(u32::MAX);
    1_u64.checked_shl(shift).unwrap_or(0)
}

/// # Safety
/// The GNU C library passes the number of arguments and the arguments.
#[cfg(target_os = "linux")]
unsafe extern "C" fn note(count: i32, arguments: *const *mut c_char) {
    let ignored = (1..=64).filter(|signal| is_ignored_now(*signal));
    IGNORED.store(
        ignored.fold(0, |all, signal| all | bit(signal)),
        Ordering::Relaxed,
    );
    // SAFETY: only queries a flag of the descriptor.
    let is_closed = |stream: &i32| unsafe { libc::fcntl(*stream, libc::F_GETFD) } == -1;
    let closed = (0..3).filter(is_closed);
    CLOSED.store(
        closed.fold(0, |all, stream| all | 1 << stream),
        Ordering::Relaxed,
    );
    if cfg!(target_env = "gnu") {
        // SAFETY: this C library passes the arguments.
        unsafe { note_arguments(count, arguments) };
    }
}

/// # Safety
/// As for `main`.
#[cfg(target_os = "linux")]
unsafe fn note_arguments(count: i32, arguments: *const *mut c_char) {
    let Some(last) = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_sub(1))
    else {
        return;
    };
    // SAFETY: there are `last + 1` arguments.
    let first = unsafe { *arguments };
    // SAFETY: as above.
    let last = unsafe { arguments.add(last) };
    // SAFETY: as above.
    let last = unsafe { *last };
    // SAFETY: an argument ends with a zero.
    let last_bytes = unsafe { libc::strlen(last) };
    // The system stores the arguments one after the other.
    let bytes = (last.addr() + last_bytes).saturating_sub(first.addr());
    ARGUMENTS.store(first.cast(), Ordering::Relaxed);
    ARGUMENT_BYTES.store(bytes, Ordering::Relaxed);
}

/// Whether this process ignores a signal at this time.
#[cfg(unix)]
pub(crate) fn is_ignored_now(signal: i32) -> bool {
    // SAFETY: all of its fields may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only queries; `action` lives through the call.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } != 0;
    !failed && action.sa_sigaction == libc::SIG_IGN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_bit() {
        let all = (1..=64).fold(0, |all, signal| all | bit(signal));
        assert_eq!((all, bit(0), bit(65)), (u64::MAX, 0, 0));
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn the_arguments_that_the_system_shows_are_known() {
        let (first, bytes) = shown_arguments();
        // SAFETY: nothing changes the arguments.
        let shown = unsafe { std::slice::from_raw_parts(first, bytes) };
        let mut read = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(read.pop(), Some(0));
        assert_eq!(shown, read);
    }
}
