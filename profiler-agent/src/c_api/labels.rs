//! Labels for C: names on the stack of a thread.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};

use profiler_core::label::{Label, LabelScope};
use profiler_core::marker::category::OTHER;

use crate::handles::Handles;
use crate::{joining, text};

static LABELS: Handles<Label> = Handles::new();

/// A label. C sees only pointers to it.
#[derive(Debug)]
#[allow(non_camel_case_types)] // its name in C
#[repr(C)]
pub struct mpprof_label {
    _private: [u8; 0],
}

/// Returns the label of this name, and makes it if it is new. Null if `name` is null, or if 4,096
/// labels exist.
///
/// # Safety
/// `name` is null or a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_label_new(name: *const c_char) -> *const mpprof_label {
    joining::is_recording(); // what the label is used for is then recorded from the beginning
    // SAFETY: the caller's condition.
    let name = unsafe { text::name(name) };
    let label = name.and_then(|name| LABELS.get_or_make(&name, |name| Label::new(name, "", 0)));
    label.map_or(std::ptr::null(), |label| std::ptr::from_ref(label).cast())
}

/// Opens a label on the calling thread. `frame` is an address in the stack frame of the function
/// that the label belongs to. Returns a number for [`mpprof_label_pop`].
///
/// # Safety
/// `label` is null, or was returned by [`mpprof_label_new`]. `frame` may be any address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_label_push(
    label: *const mpprof_label,
    frame: *const c_void,
) -> u32 {
    let label = label.cast::<Label>();
    // SAFETY: null, or a label that lives as long as the process.
    let label: Option<&'static Label> = unsafe { label.as_ref() };
    label.map_or(u32::MAX, |label| {
        LabelScope::open_at(label, &OTHER, frame.addr() as u64)
    })
}

/// Closes a label and all labels that the thread has opened after it.
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_label_pop(label: u32) {
    LabelScope::close(label);
}
