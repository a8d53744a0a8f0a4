//! Threads for C.

#![allow(unsafe_code)]

use std::ffi::c_char;

use profiler_core::thread;

use crate::guard::guarded;
use crate::text;

/// Names the calling thread in the profile. Does nothing if `name` is null.
///
/// # Safety
/// `name` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn profiler_thread_name(name: *const c_char) {
    guarded((), || {
        // SAFETY: the caller's condition.
        if let Some(name) = unsafe { text::name(name) } {
            thread::register(&name);
        }
    })
}
