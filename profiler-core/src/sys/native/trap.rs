//! The signal of perf events: one handler of `SIGTRAP` for the life of the process.
//!
//! A perf event with `sigtrap` can send no other signal ([`super::perf_event`]). Breakpoints send
//! this signal, too. So the handler is installed only when a session asks for this source, and only
//! if the program has no handler of its own. It is never removed. If the program installs its own
//! handler later, perf events are no longer used ([`is_ours`]).
//!
//! A `SIGTRAP` that no perf event sent, such as that of a breakpoint without a debugger, has the
//! same effect as without the profiler: it ends the process, or is ignored if a process sent it and
//! the program ignores the signal.

use std::io;
use std::sync::OnceLock;

use super::signal::{Answer, action, current, is_handler};

/// The signal of perf events.
pub(crate) const SIGNAL: libc::c_int = libc::SIGTRAP;
/// `si_code` of a signal that a perf event sent; see `sigaction(2)`.
const TRAP_PERF: libc::c_int = 6;

/// The action before ours, and the sampler's function.
static BEFORE: OnceLock<(libc::sigaction, Answer)> = OnceLock::new();

/// Installs our handler, unless it is installed. False if the program has one of its own.
///
/// # Errors
/// Errors of the system.
pub(crate) fn install(answer: Answer) -> io::Result<bool> {
    if BEFORE.get().is_some() {
        return Ok(is_ours());
    }
    let before = current(SIGNAL)?;
    // Stored before the first signal can arrive.
    if is_handler(before.sa_sigaction) || BEFORE.set((before, answer)).is_err() {
        return Ok(is_ours());
    }
    let action = action(&before, on_trap, libc::SA_RESTART);
    // SAFETY: the handler is a static function with the three arguments that SA_SIGINFO promises.
    let failed = unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
    if failed == 0 {
        Ok(true)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Whether a signal that is sent now reaches our handler.
pub(crate) fn is_ours() -> bool {
    current(SIGNAL).is_ok_and(|action| action.sa_sigaction == on_trap as *const () as usize)
}

/// The signal handler. The functions that it calls allocate nothing, take no lock, and cannot
/// panic.
unsafe extern "C" fn on_trap(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    profiler_sys::keeping_errno(|| {
        if let Some((before, answer)) = BEFORE.get() {
            // SAFETY: the kernel passed it to us, and it lives until we return.
            match unsafe { word_in(info) } {
                Some(word) => {
                    // SAFETY: the kernel passed the context to us, and it lives until we return.
                    let _ = unsafe { answer(word, context.cast_const().cast()) };
                }
                // SAFETY: as above.
                None => unsafe { act_as_before(before, signal, info) },
            }
        }
    });
}

/// The word of the perf event that sent the signal; `None` for any other signal.
///
/// # Safety
/// `info` is the one that the kernel passed to a handler that still runs.
unsafe fn word_in(info: *const libc::siginfo_t) -> Option<u64> {
    // SAFETY: the caller's promise.
    if unsafe { &*info }.si_code != TRAP_PERF {
        return None;
    }
    // The kernel's layout on 64-bit machines: signal, error, code, padding, address, data.
    // SAFETY: the structure has 128 bytes.
    let data = unsafe { info.cast::<u64>().add(3) };
    // SAFETY: a signal with this code has the data.
    Some(unsafe { data.read() })
}

/// Gives a signal that no perf event sent the effect that it has without the profiler: nothing if
/// the program ignores a sent signal. Otherwise the default action becomes the action, and the
/// signal is sent to this thread again. It arrives when the handler returns.
///
/// # Safety
/// The arguments are those of a handler that runs now.
unsafe fn act_as_before(
    before: &libc::sigaction,
    signal: libc::c_int,
    info: *const libc::siginfo_t,
) {
    // SAFETY: the caller's promise.
    let is_sent = unsafe { &*info }.si_code <= 0;
    let is_ignored = before.sa_sigaction == libc::SIG_IGN;
    if is_sent && is_ignored {
        return;
    }
    let mut default = *before;
    default.sa_sigaction = libc::SIG_DFL; // the system does not ignore a breakpoint
    // SAFETY: an action without a handler.
    unsafe { libc::sigaction(signal, &raw const default, std::ptr::null_mut()) };
    // Blocked while the handler runs.
    // SAFETY: sends to the calling thread only.
    unsafe { libc::raise(signal) };
}
