//! What the library keeps about this process, in its own memory.
//!
//! Used by all modules of the library. Nothing here is in the shared file: another process that can
//! write to the file must not be able to change what the handler does.
//!
//! Invariants: the configuration is written once, before the first timer exists; everything else is
//! an atomic. [`file`] is null in a process that is not recorded.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::layout::{
    CONTROL_AT, Control, FIRST_BYTES, Header, Notes, PAGE, RING_AT, ThreadRow, row_at,
};
use crate::raw::{Clock, is_readable, processor_ticks};

/// The longest path of the session's directory, with a zero at its end.
pub(crate) const MAX_DIRECTORY: usize = 512;

/// What the session has asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Configuration {
    /// The signal of the timers.
    pub(crate) signal: u32,
    /// Processor time between two samples of a thread.
    pub(crate) interval_ns: u64,
    /// Whether samples are stamped with the processor's own clock, or with the monotonic one.
    pub(crate) uses_ticks: bool,
    /// Whether crashes are recorded.
    pub(crate) records_crashes: bool,
    /// The path of the directory, which ends with a zero.
    pub(crate) directory: [u8; MAX_DIRECTORY],
}

struct Once(UnsafeCell<Configuration>);

// SAFETY: `set_configuration` is called once, while the process has one thread, and everything that
// reads it happens later.
unsafe impl Sync for Once {}

static CONFIGURATION: Once = Once(UnsafeCell::new(Configuration {
    signal: 0,
    interval_ns: 0,
    uses_ticks: false,
    records_crashes: false,
    directory: [0; MAX_DIRECTORY],
}));
static FILE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
static HAS_RECORDER: AtomicBool = AtomicBool::new(false);
static HAS_GIVEN_WAY: AtomicU32 = AtomicU32::new(0);
static FILTER: AtomicU32 = AtomicU32::new(FilterState::None as u32);

/// What the filter of system calls of this process allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum FilterState {
    /// There is none.
    None = 0,
    /// The calls of the handler, but perhaps no others.
    Handler = 1,
    /// Not even these; there are no timers.
    Nothing = 2,
}

/// Sets the configuration.
///
/// # Safety
/// Called once, before any other thread exists and before [`configuration`] is called.
pub(crate) unsafe fn set_configuration(configuration: Configuration) {
    // SAFETY: the caller's promise.
    unsafe { *CONFIGURATION.0.get() = configuration };
}

/// The configuration.
pub(crate) fn configuration() -> &'static Configuration {
    // SAFETY: it was written before, and is never changed again.
    unsafe { &*CONFIGURATION.0.get() }
}

/// The mapped file; null if this process is not recorded.
pub(crate) fn file() -> *mut u8 {
    FILE.load(Ordering::Acquire)
}

/// Sets the file of this process.
pub(crate) fn set_file(file: *mut u8) {
    FILE.store(file, Ordering::Release);
}

/// Whether this process is recorded by this library.
pub(crate) fn is_recorded() -> bool {
    !file().is_null() && !HAS_RECORDER.load(Ordering::SeqCst)
}

/// Notes whether a recorder in this process records it from now on, in place of this library.
/// Returns what was noted before.
pub(crate) fn set_has_recorder(has_recorder: bool) -> bool {
    HAS_RECORDER.swap(has_recorder, Ordering::SeqCst)
}

/// Whether the file still has its first pages. A process of this user may have cut it off, and then
/// a store would send SIGBUS: the file is left, and nothing is recorded any more.
pub(crate) fn is_intact() -> bool {
    has_memory(FIRST_BYTES - PAGE)
}

/// The same for the page of the file at this place.
pub(crate) fn has_memory(at: usize) -> bool {
    let file = file();
    if file.is_null() {
        return false;
    }
    let has_memory = is_readable(file.wrapping_add(at & !7).addr() as u64);
    if !has_memory {
        set_file(ptr::null_mut());
    }
    has_memory
}

/// The header of the file.
pub(crate) fn header() -> Option<&'static Header> {
    // SAFETY: the mapping has the length of the layout and stays until the process ends. It is
    // aligned to pages, and all fields are atomics, for which any bytes are valid.
    unsafe { file().cast::<Header>().as_ref() }
}

/// The states of the ring's pages.
pub(crate) fn control() -> Option<&'static Control> {
    let file = file();
    if file.is_null() {
        return None;
    }
    // SAFETY: as for `header`; the offset is inside the mapping.
    unsafe { file.wrapping_add(CONTROL_AT).cast::<Control>().as_ref() }
}

/// A thread's row in the file.
pub(crate) fn row(row: usize) -> Option<&'static ThreadRow> {
    let file = file();
    let at = row_at(row)?;
    if file.is_null() {
        return None;
    }
    // SAFETY: as for `header`; `row_at` returns offsets inside the mapping, aligned to 64.
    unsafe { file.wrapping_add(at).cast::<ThreadRow>().as_ref() }
}

/// The first byte of the ring. `None` if this process is not recorded.
pub(crate) fn ring() -> Option<*mut u8> {
    let file = file();
    (!file.is_null()).then(|| file.wrapping_add(RING_AT))
}

/// Reports a fact to the session.
pub(crate) fn note(note: Notes) {
    if let Some(header) = header() {
        header.notes.fetch_or(note.0, Ordering::Relaxed);
    }
}

/// The filter of system calls, as far as the library has seen one.
pub(crate) fn filter() -> FilterState {
    match FILTER.load(Ordering::Relaxed) {
        0 => FilterState::None,
        1 => FilterState::Handler,
        _ => FilterState::Nothing,
    }
}

/// Whether the program uses our signal itself, so that there are no timers.
pub(crate) fn has_given_way() -> bool {
    HAS_GIVEN_WAY.load(Ordering::Relaxed) != 0
}

/// Leaves our signal to the program, for good.
pub(crate) fn set_given_way() {
    HAS_GIVEN_WAY.store(1, Ordering::Relaxed);
}

/// Whether the library may call the system outside of the handler: a filter may allow less.
pub(crate) fn may_call_system() -> bool {
    filter() == FilterState::None
}

/// Sets the state of the filter.
pub(crate) fn set_filter(state: FilterState) {
    FILTER.store(state as u32, Ordering::Relaxed);
}

/// The clock of samples.
#[inline(always)]
pub(crate) fn now() -> u64 {
    if configuration().uses_ticks {
        processor_ticks()
    } else {
        Clock::MONOTONIC.now_ns()
    }
}
