//! The functions that `include/profiler.h` declares, which documents them for C.
//!
//! They may be called from any thread, at any time after the library is loaded, but not in a signal
//! handler. Invariants: without a session they do nothing and cost two relaxed loads; the first call joins the
//! session, and waits for a limited time ([`crate::joining`]); no
//! function panics; null pointers and texts that are not UTF-8 are accepted, and lengths are
//! bounded (`text`).

mod counters;
mod groups;
mod labels;
pub(crate) mod markers;
mod sites;
mod threads;

pub use counters::*;
pub use groups::*;
pub use labels::*;
pub use markers::*;
pub use sites::*;
pub use threads::*;

use std::ffi::{c_char, c_int};

use profiler_core::session;
use profiler_sys::keeping_errno;

use crate::joining;
use crate::text::{self, MAX_TEXT_BYTES};

/// The version of this interface. Functions are added, and never changed or removed, while the
/// number stays.
pub const MPPROF_API_VERSION: u32 = 1;

/// Returns [`MPPROF_API_VERSION`] of the loaded library.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_api_version() -> u32 {
    MPPROF_API_VERSION
}

/// Joins the session whose address is in the environment, as the first call of any function does.
/// Returns 1 if this process records then, otherwise 0.
///
/// Waits for the session's answer: usually for about a millisecond, at most 20 ms, and not at all
/// without a session. Later calls do nothing.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_join() -> c_int {
    joining::join();
    is_recording()
}

/// Like [`mpprof_join`], for the session with this address: the value of the environment variable
/// `MULTIPROCESS_PROFILER_SESSION` in the processes of the session. If `address` is null, the
/// environment is read. Waits for the session's answer for at most 2 s.
///
/// # Safety
/// `address` is null or a text that ends with a zero. No other thread changes it during the call.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_join_session(address: *const c_char) -> c_int {
    // SAFETY: the caller's condition.
    match unsafe { text::read(address, MAX_TEXT_BYTES) } {
        Some(address) => keeping_errno(|| joining::join_at(&address)),
        None => joining::join(),
    }
    is_recording()
}

/// Begins to record in a forked child of a process that records. Returns 1 if this process records
/// then, otherwise 0. Waits for the session's answer as [`mpprof_join`] does.
///
/// # Safety
/// The calling process was just forked: it has started no thread. If the process that forked it had
/// several threads, none of them held a lock of the environment or of the dynamic linker at the
/// fork. Not in a signal handler, and not in the child of a `vfork`.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_after_fork() -> c_int {
    // SAFETY: the caller's promise.
    keeping_errno(|| unsafe { joining::after_fork() });
    is_recording()
}

/// Stops recording in this process for good, and ends the library's threads. What was recorded
/// stays in the profile. Waits for the threads, usually for less than a millisecond.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_leave() {
    keeping_errno(joining::leave);
}

/// Returns 1 if this process records now, otherwise 0. Costs two relaxed loads.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_is_recording() -> c_int {
    is_recording()
}

/// Not the exported function: in a copy of the library, its name means that of the first one.
fn is_recording() -> c_int {
    c_int::from(joining::is_recording() && !session::is_paused())
}
