//! Call sites of markers in C: what the macros of `include/profiler.h` declare, one static each.
//!
//! The program owns the static, and the library keeps nothing of it but its name, so code with call
//! sites may be unloaded. The first use that finds a session looks up the name's site in this
//! library. Invariants: two threads that use a site for the first time store the same values; the
//! macros access the static atomically; a site whose name cannot be kept is recorded as the
//! functions with names do.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use profiler_core::internal::call_sites::active_word;
use profiler_core::marker::category::OTHER;
use profiler_core::marker::{MarkerOptions, MarkerSite};
use profiler_core::session;
use profiler_core::time::Timestamp;

use super::markers::{self, Numbers};
use crate::handles::Handles;
use crate::joining;
use crate::text::{self, MAX_TEXT_BYTES};

static SITES: Handles<NameSites> = Handles::new();

/// The sites of one name, one for each kind of payload.
#[derive(Debug)]
struct NameSites {
    plain: MarkerSite,
    with_text: MarkerSite,
    with_numbers: MarkerSite,
}

impl NameSites {
    const fn new(name: &'static str) -> Self {
        Self {
            plain: MarkerSite::new(name),
            with_text: MarkerSite::new(name),
            with_numbers: MarkerSite::new(name),
        }
    }
}

/// A call site in C. It begins with its name, and is otherwise zero.
#[derive(Debug)]
#[allow(non_camel_case_types)] // its name in C
#[repr(C)]
pub struct mpprof_site {
    name: *const c_char,
    /// Null before the first use. Then the word whose lowest bit says whether a session runs.
    active: AtomicPtr<u64>,
    /// Null until the first use during a session.
    own: AtomicPtr<NameSites>,
}

/// The site of a marker that is to be recorded.
enum Found {
    Known(&'static NameSites),
    /// There are too many names, or another thread looks one up.
    Named(*const c_char),
}

impl mpprof_site {
    /// `None` if nothing is to be recorded.
    ///
    /// # Safety
    /// The name is null or a text that ends with a zero.
    #[inline(always)]
    unsafe fn find(&self) -> Option<Found> {
        let own = self.own.load(Ordering::Acquire);
        // SAFETY: null, or stored by `look_up`: it lives as long as the process.
        match unsafe { own.cast_const().as_ref() } {
            Some(known) if session::is_active() => Some(Found::Known(known)),
            // SAFETY: the caller's condition.
            _ => unsafe { self.look_up() },
        }
    }

    /// # Safety
    /// As for [`mpprof_site::find`].
    #[cold]
    #[inline(never)]
    unsafe fn look_up(&self) -> Option<Found> {
        let is_recording = joining::is_recording();
        // It is decided now, so the macros need only this word.
        self.active
            .store(active_word().cast_mut(), Ordering::Release);
        if !is_recording {
            return None;
        }
        // SAFETY: the caller's condition.
        let name = unsafe { text::name(self.name) }?;
        let Some(known) = SITES.get_or_make(&name, NameSites::new) else {
            return Some(Found::Named(self.name));
        };
        self.own
            .store(ptr::from_ref(known).cast_mut(), Ordering::Release);
        Some(Found::Known(known))
    }
}

/// Records a marker of a site, with a text if it is not null.
///
/// # Safety
/// As [`mpprof_site_marker`].
#[inline(always)]
unsafe fn add(
    site: *const mpprof_site,
    text: *const c_char,
    options: impl FnOnce() -> MarkerOptions,
) {
    // SAFETY: the caller's condition.
    let site = unsafe { site.as_ref() };
    // SAFETY: the caller's condition.
    let found = site.and_then(|site| unsafe { site.find() });
    match found {
        None => {}
        Some(Found::Known(known)) if text.is_null() => known.plain.add(&OTHER, options()),
        // SAFETY: the caller's condition.
        Some(Found::Known(known)) => unsafe { add_text(known, text, options()) },
        // SAFETY: the caller's condition.
        Some(Found::Named(name)) => unsafe { markers::add_if_recording(name, text, options()) },
    }
}

/// # Safety
/// As [`mpprof_site_marker`].
#[inline(never)]
unsafe fn add_text(known: &'static NameSites, text: *const c_char, options: MarkerOptions) {
    // SAFETY: the caller's condition.
    let text = unsafe { text::read(text, MAX_TEXT_BYTES) };
    known
        .with_text
        .add_text(&OTHER, options, text.as_deref().unwrap_or_default());
}

/// Joins the session at the first use of a site. Returns 1 if a session runs, otherwise 0.
///
/// # Safety
/// As [`mpprof_site_marker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_site_open(site: *const mpprof_site) -> c_int {
    // SAFETY: the caller's condition.
    let site = unsafe { site.as_ref() };
    // SAFETY: the caller's condition.
    let found = site.and_then(|site| unsafe { site.look_up() });
    c_int::from(found.is_some())
}

/// Records an instant of a site, with a text if it is not null.
///
/// # Safety
/// `site` is null, or a static that only the macros and these functions use. Its name and `text`
/// are null or texts that end with a zero. The name never changes, and no other thread changes the
/// text during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_site_marker(site: *const mpprof_site, text: *const c_char) {
    // SAFETY: the caller's condition.
    unsafe { add(site, text, MarkerOptions::default) };
}

/// Records an interval of a site, from `start` until now. Does nothing if `start` is 0.
///
/// # Safety
/// As [`mpprof_site_marker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_site_interval(
    site: *const mpprof_site,
    start: u64,
    text: *const c_char,
) {
    if start != 0 {
        let options = || MarkerOptions::interval_until_now_from(Timestamp::from_raw(start));
        // SAFETY: the caller's condition.
        unsafe { add(site, text, options) };
    }
}

/// Records the start of an interval, which an end of the same name ends, of whichever site.
///
/// # Safety
/// As [`mpprof_site_marker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_site_begin(site: *const mpprof_site, text: *const c_char) {
    // SAFETY: the caller's condition.
    unsafe { add(site, text, MarkerOptions::interval_start) };
}

/// Records the end of an interval.
///
/// # Safety
/// As [`mpprof_site_marker`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_site_end(site: *const mpprof_site) {
    // SAFETY: the caller's condition; a null text is allowed.
    unsafe { add(site, ptr::null(), MarkerOptions::interval_end) };
}

/// Records an instant of a site, with a text if it is not null, and up to 64 numbers.
///
/// # Safety
/// As [`mpprof_site_marker`], and `numbers` is null or points to `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_site_numbers(
    site: *const mpprof_site,
    text: *const c_char,
    numbers: *const f64,
    count: usize,
) {
    // SAFETY: the caller's condition.
    let site = unsafe { site.as_ref() };
    // SAFETY: the caller's condition.
    match site.and_then(|site| unsafe { site.find() }) {
        None => {}
        Some(Found::Known(known)) => {
            // SAFETY: the caller's condition.
            let text = unsafe { text::read(text, MAX_TEXT_BYTES) };
            // SAFETY: the caller's condition.
            let payload = Numbers::new(text.as_deref(), unsafe { text::numbers(numbers, count) });
            let options = MarkerOptions::default();
            known.with_numbers.add_typed(&OTHER, options, &payload);
        }
        Some(Found::Named(name)) => {
            // SAFETY: the caller's condition.
            unsafe { markers::mpprof_marker_numbers(name, text, numbers, count) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_without_a_session_learns_where_to_look_and_nothing_else() {
        let site = mpprof_site {
            name: c"marker".as_ptr(),
            active: AtomicPtr::new(ptr::null_mut()),
            own: AtomicPtr::new(ptr::null_mut()),
        };
        // SAFETY: the name ends with a zero, and nothing changes it.
        unsafe { mpprof_site_marker(&raw const site, ptr::null()) };
        assert_eq!(site.active.into_inner().cast_const(), active_word());
        assert!(site.own.into_inner().is_null());
        // SAFETY: null is allowed.
        unsafe { mpprof_site_end(ptr::null()) };
    }
}
