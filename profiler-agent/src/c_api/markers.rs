//! Markers for C.

#![allow(unsafe_code)]

use std::ffi::c_char;

use profiler_core::marker::category::OTHER;
use profiler_core::marker::schema::{Format, MarkerSchema};
use profiler_core::marker::{MarkerOptions, MarkerSite, MarkerStack, ProfilerMarker, Text};
use profiler_core::time::Timestamp;
use serde::Serialize;

use crate::joining;
use crate::text::{self, MAX_TEXT_BYTES};

// The sites of markers whose names are arguments, one for each kind of payload.
static PLAIN: MarkerSite = MarkerSite::new("");
static WITH_TEXT: MarkerSite = MarkerSite::new("");
static WITH_NUMBERS: MarkerSite = MarkerSite::new("");

/// The payload of a marker with numbers.
#[derive(Serialize)]
pub(super) struct Numbers<'a> {
    text: Option<&'a str>,
    numbers: &'a [f64],
}

impl<'a> Numbers<'a> {
    pub(super) const fn new(text: Option<&'a str>, numbers: &'a [f64]) -> Self {
        Self { text, numbers }
    }
}

impl ProfilerMarker for Numbers<'_> {
    const TYPE_NAME: &'static str = "Numbers";
    const IS_OF_PROFILER: bool = true;

    fn schema() -> MarkerSchema {
        MarkerSchema::in_chart_and_table(Self::TYPE_NAME)
            .tooltip_label("{marker.name}")
            .chart_label("{marker.name} {marker.data.text} {marker.data.numbers}")
            .table_label("{marker.name} {marker.data.text} {marker.data.numbers}")
            .key_label_format("text", "Details", Format::String)
            .key_label_format("numbers", "Numbers", Format::List)
    }
}

/// Records a marker with this name and, if it is not null, this text.
///
/// # Safety
/// As [`mpprof_marker_text`].
#[inline(always)]
unsafe fn add(name: *const c_char, text: *const c_char, options: impl FnOnce() -> MarkerOptions) {
    if !joining::is_off() {
        // SAFETY: the caller's condition.
        unsafe { add_if_recording(name, text, options()) };
    }
}

/// [`add`], apart from it, so that a call costs little while no session runs.
///
/// # Safety
/// As [`mpprof_marker_text`].
#[inline(never)]
pub(crate) unsafe fn add_if_recording(
    name: *const c_char,
    text: *const c_char,
    options: MarkerOptions,
) {
    if !joining::is_recording() {
        return;
    }
    // SAFETY: the caller's condition.
    let Some(name) = (unsafe { text::name(name) }) else {
        return;
    };
    // SAFETY: the caller's condition.
    match unsafe { text::read(text, MAX_TEXT_BYTES) } {
        Some(text) => {
            WITH_TEXT.add_named_typed(&name, &OTHER, options, &Text { name: &text });
        }
        None => PLAIN.add_named(&name, &OTHER, options),
    }
}

/// Records an instant.
///
/// # Safety
/// `name` is null or a text that ends with a zero. No other thread changes it during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_marker(name: *const c_char) {
    // SAFETY: the caller's condition; a null text is allowed.
    unsafe { add(name, std::ptr::null(), MarkerOptions::default) };
}

/// Records an instant with a text.
///
/// # Safety
/// `name` and `text` are null or texts that end with a zero. No other thread changes them during
/// the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_marker_text(name: *const c_char, text: *const c_char) {
    // SAFETY: the caller's condition.
    unsafe { add(name, text, MarkerOptions::default) };
}

/// Records an instant with a text and the stack of the calling thread.
///
/// # Safety
/// As [`mpprof_marker_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_marker_stack(name: *const c_char, text: *const c_char) {
    let options = || MarkerOptions::default().with_stack(MarkerStack::Full);
    // SAFETY: the caller's condition.
    unsafe { add(name, text, options) };
}

/// Records an instant with a text and up to 64 numbers.
///
/// # Safety
/// As [`mpprof_marker_text`], and `numbers` is null or points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_marker_numbers(
    name: *const c_char,
    text: *const c_char,
    numbers: *const f64,
    count: usize,
) {
    if !joining::is_recording() {
        return;
    }
    // SAFETY: the caller's condition.
    let Some(name) = (unsafe { text::name(name) }) else {
        return;
    };
    // SAFETY: the caller's condition.
    let text = unsafe { text::read(text, MAX_TEXT_BYTES) };
    // SAFETY: the caller's condition.
    let payload = Numbers::new(text.as_deref(), unsafe { text::numbers(numbers, count) });
    WITH_NUMBERS.add_named_typed(&name, &OTHER, MarkerOptions::default(), &payload);
}

/// Returns the present instant for [`mpprof_interval`]; 0 while no session runs.
#[unsafe(no_mangle)]
pub extern "C" fn mpprof_now() -> u64 {
    if joining::is_recording() {
        Timestamp::now().raw()
    } else {
        0
    }
}

/// Records an interval from `start` until now. Does nothing if `start` is 0.
///
/// # Safety
/// As [`mpprof_marker_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_interval(name: *const c_char, start: u64, text: *const c_char) {
    if start != 0 {
        let options = || MarkerOptions::interval_until_now_from(Timestamp::from_raw(start));
        // SAFETY: the caller's condition.
        unsafe { add(name, text, options) };
    }
}

/// Records the start of an interval, which [`mpprof_end`] with the same name ends.
///
/// # Safety
/// As [`mpprof_marker_text`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_begin(name: *const c_char, text: *const c_char) {
    // SAFETY: the caller's condition.
    unsafe { add(name, text, MarkerOptions::interval_start) };
}

/// Records the end of an interval.
///
/// # Safety
/// As [`mpprof_marker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_end(name: *const c_char) {
    // SAFETY: the caller's condition; a null text is allowed.
    unsafe { add(name, std::ptr::null(), MarkerOptions::interval_end) };
}
