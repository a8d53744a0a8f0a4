//! `span` and `marker` of the Python package as functions of the interpreter, for CPython.
//!
//! The package calls [`mpprof_python_functions`] through `ctypes`, once, and gets two functions
//! that the interpreter calls directly. They record what is frequent: a name and no fields, or a
//! span with fields, while a session runs. Everything else they pass to the functions in Python
//! that they replace. They use the stable interface of CPython ([`interpreter`]), so one library
//! serves all versions. Invariants: all functions are called with the interpreter's lock held; none
//! raises an error of its own; the first interpreter of a process has them, and others do without.

#![allow(unsafe_code)]

mod arguments;
mod interpreter;
mod span;

use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use profiler_core::marker::MarkerOptions;
use profiler_core::session;

use self::arguments::Arguments;
use self::interpreter::{CallKind, Interpreter, Live, Locked, Method, Object, Owned};
use crate::c_api::markers::add_if_recording;

/// The size of the head of each object, in bytes: a count of references and a type. Interpreters
/// without a global lock, and those built for debugging, have larger ones.
const HEAD_BYTES: usize = 2 * size_of::<usize>();

/// What the functions need, from the first call of [`mpprof_python_functions`] on.
static FUNCTIONS: OnceLock<PythonFunctions> = OnceLock::new();
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The interpreter, and the functions in Python that these functions replace.
struct PythonFunctions {
    python: Interpreter,
    span_type: Live,
    span: Live,
    marker: Live,
    fields_text: Live,
    co_flags: Live,
}

// SAFETY: the objects are used with the interpreter's lock held only, see `Locked`.
unsafe impl Send for PythonFunctions {}
// SAFETY: as above.
unsafe impl Sync for PythonFunctions {}

/// Returns a tuple of the functions `span` and `marker`, or null if this interpreter does without.
///
/// `span` and `marker` are the functions in Python that they replace, `fields_text` formats fields
/// as bytes, and `head_bytes` is `object.__basicsize__`.
///
/// # Safety
/// The calling thread holds the interpreter's lock, and the pointers are objects of CPython.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpprof_python_functions(
    span: *mut Object,
    marker: *mut Object,
    fields_text: *mut Object,
    head_bytes: usize,
) -> *mut Object {
    if head_bytes != HEAD_BYTES || IS_TAKEN.swap(true, Ordering::AcqRel) {
        return ptr::null_mut();
    }
    // SAFETY: the caller's condition.
    let replaced = [span, marker, fields_text].map(|object| unsafe { Live::new(object) });
    // SAFETY: the caller's condition.
    let made = unsafe { make(replaced) };
    made.unwrap_or(ptr::null_mut())
}

/// # Safety
/// As for [`mpprof_python_functions`].
unsafe fn make(replaced: [Option<Live>; 3]) -> Option<*mut Object> {
    let [Some(span), Some(marker), Some(fields_text)] = replaced else {
        return None;
    };
    let python = Interpreter::of_process()?;
    let (span_type, co_flags) = {
        // SAFETY: the caller's condition.
        let locked = unsafe { python.locked() };
        for object in [span, marker, fields_text] {
            locked.kept(object).into_ptr(); // for good
        }
        let made = [span::make_type(locked)?, locked.interned(c"co_flags")?];
        let [span_type, co_flags] = made.map(|owned| {
            let object = owned.live();
            owned.into_ptr(); // for good
            object
        });
        (span_type, co_flags)
    };
    let state = FUNCTIONS.get_or_init(|| PythonFunctions {
        python,
        span_type,
        span,
        marker,
        fields_text,
        co_flags,
    });
    // SAFETY: the caller's condition.
    let locked = unsafe { state.python.locked() };
    let functions = vec![locked.function(&SPAN)?, locked.function(&MARKER)?];
    locked.tuple(functions).map(Owned::into_ptr)
}

static SPAN: Method = Method::new(
    c"span",
    CallKind::Fast(span_called),
    c"Records the time of a `with` block.",
);
static MARKER: Method = Method::new(
    c"marker",
    CallKind::Fast(marker_called),
    c"Records an instant.",
);

/// What a call of one of the functions has. `None` before [`mpprof_python_functions`] has returned.
///
/// # Safety
/// The interpreter has called one of the functions with these arguments, and holds its lock.
unsafe fn called<'c>(
    values: *const *mut Object,
    positional: isize,
    names: *mut Object,
) -> Option<(&'static PythonFunctions, Locked<'static>, Arguments<'c>)> {
    let state = FUNCTIONS.get()?;
    // SAFETY: the caller's promise.
    let python = unsafe { state.python.locked() };
    // SAFETY: the caller's promise.
    let arguments = unsafe { Arguments::new(python, values, positional, names) };
    Some((state, python, arguments))
}

/// `span(name, **fields)`.
unsafe extern "C" fn span_called(
    _: *mut Object,
    values: *const *mut Object,
    positional: isize,
    names: *mut Object,
) -> *mut Object {
    // SAFETY: the interpreter calls with its lock held, and has passed the arguments.
    let Some((state, python, arguments)) = (unsafe { called(values, positional, names) }) else {
        return ptr::null_mut();
    };
    state
        .span(python, &arguments)
        .map_or_else(|| python.call(state.span, &arguments), Owned::into_ptr)
}

/// `marker(name, **fields)`.
unsafe extern "C" fn marker_called(
    _: *mut Object,
    values: *const *mut Object,
    positional: isize,
    names: *mut Object,
) -> *mut Object {
    // SAFETY: the interpreter calls with its lock held, and has passed the arguments.
    let Some((state, python, arguments)) = (unsafe { called(values, positional, names) }) else {
        return ptr::null_mut();
    };
    match name_of(python, &arguments) {
        Some((_, text)) if arguments.names().is_none() => {
            // SAFETY: the text ends with a zero, and lives as long as the argument.
            unsafe { add_if_recording(text, ptr::null(), MarkerOptions::default()) };
            python.none()
        }
        _ => python.call(state.marker, &arguments),
    }
}

/// The name that a call has passed, and its text. `None` if no session runs, or if the call has
/// other positional arguments than one text.
fn name_of(python: Locked<'_>, arguments: &Arguments<'_>) -> Option<(Live, *const c_char)> {
    if !session::is_active() {
        return None; // in a forked child, the functions in Python join first
    }
    let [name] = arguments.positional() else {
        return None;
    };
    Some((*name, python.text(*name)?))
}

impl PythonFunctions {
    /// A span that is recorded at its start and at its end; `None` if the function in Python must
    /// make it: in a coroutine or a generator, it is one interval.
    fn span<'a>(&self, python: Locked<'a>, arguments: &Arguments<'_>) -> Option<Owned<'a>> {
        let (name, _) = name_of(python, arguments)?;
        if python.caller_flags(self.co_flags)? & span::SUSPENDS != 0 {
            return None;
        }
        let text = match arguments.names().is_none() || session::is_paused() {
            true => None,
            false => Some(python.call_with(self.fields_text, python.fields(arguments)?)?),
        };
        span::make(python, self.span_type, name, text)
    }
}

/// Flags of the code of a function.
type CodeFlags = c_int;
