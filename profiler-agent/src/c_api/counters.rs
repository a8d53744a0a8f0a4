//! Counters for C: numbers that a profile shows as graphs.

#![allow(unsafe_code)]

use std::ffi::c_char;

use profiler_core::counter::Counter;

use crate::handles::Handles;
use crate::{joining, text};

static COUNTERS: Handles<Counter> = Handles::new();

/// A counter. C sees only pointers to it.
#[derive(Debug)]
#[allow(non_camel_case_types)] // its name in C
#[repr(C)]
pub struct mpprof_counter {
    _private: [u8; 0],
}

/// Returns the counter of this name, and makes it if it is new. The first call decides about its
/// category. Null if `name` is null, or if 4,096 counters exist.
///
/// # Safety
/// `name` and `category` are null or texts that end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_counter_new(
    name: *const c_char,
    category: *const c_char,
) -> *const mpprof_counter {
    joining::is_recording(); // what the counter is used for is then recorded from the beginning
    // SAFETY: the caller's condition.
    let name = unsafe { text::name(name) };
    // SAFETY: the caller's condition.
    let category = unsafe { text::name(category) }.unwrap_or_default();
    let make = |name: &'static str| {
        let category: &'static str = Box::leak(Box::<str>::from(category));
        Counter::new(name, category, "")
    };
    let counter = name.and_then(|name| COUNTERS.get_or_make(&name, make));
    counter.map_or(std::ptr::null(), |counter| {
        std::ptr::from_ref(counter).cast()
    })
}

/// Adds to a counter.
///
/// # Safety
/// `counter` is null, or was returned by [`mpprof_counter_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_counter_add(counter: *const mpprof_counter, delta: i64) {
    // SAFETY: the caller's condition.
    if let Some(counter) = unsafe { known(counter) } {
        counter.add(delta);
    }
}

/// Sets a counter.
///
/// # Safety
/// As [`mpprof_counter_add`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_counter_set(counter: *const mpprof_counter, value: i64) {
    // SAFETY: the caller's condition.
    if let Some(counter) = unsafe { known(counter) } {
        counter.set(value);
    }
}

/// # Safety
/// `counter` is null, or was returned by [`mpprof_counter_new`].
unsafe fn known(counter: *const mpprof_counter) -> Option<&'static Counter> {
    // SAFETY: null, or a counter that lives as long as the process.
    unsafe { counter.cast::<Counter>().as_ref() }
}
