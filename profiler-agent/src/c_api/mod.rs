//! The functions that `include/profiler.h` declares, which documents them for C.
//!
//! They may be called from any thread, at any time after the library is loaded, but not in a signal
//! handler. Invariants: without a session they do nothing and cost one relaxed load; no function
//! panics; null pointers and texts that are not UTF-8 are accepted, and lengths are bounded
//! (`text`).

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

use std::ffi::c_int;

use profiler_core::session;

use crate::start;

/// The version of this interface. Functions are added, and never changed or removed, while the
/// number stays.
pub const PROFILER_API_VERSION: u32 = 1;

/// Returns [`PROFILER_API_VERSION`] of the loaded library.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn profiler_api_version() -> u32 {
    PROFILER_API_VERSION
}

/// Joins the session whose address is in the environment, if the library has not done so when it
/// was loaded: needed only after `dlopen`. Returns 1 if this process records then, otherwise 0.
///
/// Waits for the session's answer: usually for about a millisecond, at most 20 ms, and not at all
/// without a session. Later calls do nothing.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn profiler_join() -> c_int {
    start::join();
    profiler_is_recording()
}

/// Returns 1 if this process records now, otherwise 0. Costs two relaxed loads.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn profiler_is_recording() -> c_int {
    c_int::from(session::is_active() && !session::is_paused())
}
