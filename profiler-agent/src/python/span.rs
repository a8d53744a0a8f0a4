//! The type of spans: an interval that is recorded at its start and at its end, by a `with` block.
//!
//! Invariant: an end is recorded on the thread of the start and into the same memory, so a span
//! that was open at a fork is not ended in the forked child.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use profiler_core::internal::call_sites::pool_tag;
use profiler_core::marker::MarkerOptions;
use profiler_core::session;

use super::interpreter::{CallKind, Live, Locked, Method, Object, Owned, TypeSlot, TypeSpec};
use super::{CodeFlags, FUNCTIONS};
use crate::c_api::markers::add_if_recording;

/// Flags of the code of generators, coroutines and asynchronous generators.
pub(super) const SUSPENDS: CodeFlags = 0x20 | 0x80 | 0x100 | 0x200;

/// A span as an object. All zeros: it has no name, and records nothing.
#[repr(C)]
struct Span {
    head: Object,
    name: *mut Object,
    /// The fields as bytes, or null.
    text: *mut Object,
    /// The memory that has the start; 0 before.
    pool: u64,
    /// The thread of the start.
    thread: libc::pthread_t,
}

static METHODS: [Method; 3] = [
    Method::new(c"__enter__", CallKind::Plain(enter), c"Records the start."),
    Method::new(c"__exit__", CallKind::Array(exit), c"Records the end."),
    Method::end(),
];

/// Makes the type.
pub(super) fn make_type(python: Locked<'_>) -> Option<Owned<'_>> {
    let slots = [
        TypeSlot {
            slot: 52, // Py_tp_dealloc
            value: dealloc as *const c_void,
        },
        TypeSlot {
            slot: 64, // Py_tp_methods
            value: METHODS.as_ptr().cast(),
        },
        TypeSlot {
            slot: 0,
            value: ptr::null(),
        },
    ];
    let spec = TypeSpec {
        name: c"multiprocess_profiler.Span".as_ptr(),
        bytes: c_int::try_from(size_of::<Span>()).ok()?,
        item_bytes: 0,
        flags: 1 << 18, // Py_TPFLAGS_DEFAULT
        slots: slots.as_ptr(),
    };
    // SAFETY: the functions have the types of these slots; the name and the methods are static.
    unsafe { python.make_type(&spec) }
}

/// Makes a span of the type that [`make_type`] has made.
pub(super) fn make<'a>(
    python: Locked<'a>,
    of: Live,
    name: Live,
    text: Option<Owned<'a>>,
) -> Option<Owned<'a>> {
    let made = python.allocate(of)?;
    // SAFETY: the new object is a `Span` of zeros, to which there is no other reference.
    let span = unsafe { made.live().as_ptr().cast::<Span>().as_mut() }?;
    span.name = python.kept(name).into_ptr();
    span.text = text.map_or(ptr::null_mut(), Owned::into_ptr);
    Some(made)
}

/// `__enter__`: records the start, and returns the span.
unsafe extern "C" fn enter(object: *mut Object, _: *mut Object) -> *mut Object {
    let Some(state) = FUNCTIONS.get() else {
        return ptr::null_mut();
    };
    // SAFETY: the interpreter calls with its lock held.
    let python = unsafe { state.python.locked() };
    // SAFETY: an object of the type; with the lock held, only this call uses its fields.
    if let Some(span) = unsafe { object.cast::<Span>().as_mut() } {
        span.pool = 0;
        if let Some(name) = span.name(python).filter(|_| session::is_active()) {
            // SAFETY: the span keeps the object.
            let text = unsafe { Live::new(span.text) };
            let text = text.map_or(ptr::null(), |text| python.bytes(text));
            span.pool = pool_tag();
            span.thread = own_thread();
            // SAFETY: the texts end with zeros, and live as long as their objects.
            unsafe { add_if_recording(name, text, MarkerOptions::interval_start()) };
        }
    }
    // SAFETY: the caller has a reference.
    let object = unsafe { Live::new(object) };
    object.map_or(ptr::null_mut(), |object| python.kept(object).into_ptr())
}

/// `__exit__`: records the end, and lets an error of the block pass.
unsafe extern "C" fn exit(object: *mut Object, _: *const *mut Object, _: isize) -> *mut Object {
    let Some(state) = FUNCTIONS.get() else {
        return ptr::null_mut();
    };
    // SAFETY: the interpreter calls with its lock held.
    let python = unsafe { state.python.locked() };
    // SAFETY: as in `enter`.
    let span = unsafe { object.cast::<Span>().as_ref() };
    let here = span.filter(|span| span.pool == pool_tag() && span.thread == own_thread());
    let name = here
        .filter(|_| session::is_active())
        .and_then(|span| span.name(python));
    if let Some(name) = name {
        // SAFETY: the text ends with a zero, and lives as long as its object.
        unsafe { add_if_recording(name, ptr::null(), MarkerOptions::interval_end()) };
    }
    python.none()
}

/// Frees a span.
unsafe extern "C" fn dealloc(object: *mut Object) {
    let Some(state) = FUNCTIONS.get() else { return };
    // SAFETY: the interpreter calls with its lock held.
    let python = unsafe { state.python.locked() };
    // SAFETY: an object of the type, to which there is no reference any more.
    if let Some(span) = unsafe { object.cast::<Span>().as_ref() } {
        python.release(span.name);
        python.release(span.text);
        // SAFETY: `make` or the interpreter has allocated it; nothing refers to it.
        unsafe { python.free(object, state.span_type) };
    }
}

impl Span {
    /// The text of its name.
    fn name(&self, python: Locked<'_>) -> Option<*const c_char> {
        // SAFETY: the span keeps the object.
        let name = unsafe { Live::new(self.name) };
        name.and_then(|name| python.text(name))
    }
}

fn own_thread() -> libc::pthread_t {
    // SAFETY: has no condition.
    unsafe { libc::pthread_self() }
}
