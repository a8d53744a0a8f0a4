//! The functions that `include/profiler.h` declares, which documents them for C.
//!
//! They may be called from any thread, at any time after the library is loaded, but not in a signal
//! handler. Invariants: without a session they do nothing and cost two relaxed loads; while it is
//! not decided whether the process records, they wait for a limited time ([`crate::later`]); no
//! function panics; null pointers and texts that are not UTF-8 are accepted, and lengths are
//! bounded (`text`).

mod counters;
mod groups;
mod labels;
mod markers;
mod threads;

pub use counters::*;
pub use groups::*;
pub use labels::*;
pub use markers::*;
pub use threads::*;

use std::ffi::{c_char, c_int};

use profiler_core::session;

use crate::errno::keeping_errno;
use crate::text::{self, MAX_TEXT_BYTES};
use crate::{later, leaving, start};

/// The version of this interface. Functions are added, and never changed or removed, while the
/// number stays.
pub const MPPROF_API_VERSION: u32 = 1;

/// Returns [`MPPROF_API_VERSION`] of the loaded library.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_api_version() -> u32 {
    MPPROF_API_VERSION
}

/// Joins the session whose address is in the environment, if the library has not done so when it
/// was loaded: needed only after `dlopen`. Returns 1 if this process records then, otherwise 0.
///
/// Waits for the session's answer: usually for about a millisecond, at most 20 ms, and not at all
/// without a session. Later calls do nothing.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_join() -> c_int {
    keeping_errno(start::join);
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
        Some(address) => keeping_errno(|| start::join_at(&address)),
        None => keeping_errno(start::join),
    }
    is_recording()
}

/// Stops recording in this process for good, and ends the library's threads. What was recorded
/// stays in the profile. Waits for the threads, usually for less than a millisecond.
///
/// The functions that this library replaces ([`crate::replaced`]) leave in the same way if that is
/// necessary. In a program that has loaded the library with `dlopen` they are not replaced.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_leave() {
    keeping_errno(leaving::leave);
}

/// Returns 1 if this process records now, otherwise 0. Costs two relaxed loads.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_is_recording() -> c_int {
    is_recording()
}

/// Not the exported function: in a copy of the library, its name means that of the first one.
fn is_recording() -> c_int {
    c_int::from(later::is_recording() && !session::is_paused())
}
