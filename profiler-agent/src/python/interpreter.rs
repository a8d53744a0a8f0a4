//! The functions of CPython that this library calls, of its stable interface.
//!
//! They are looked up in the process, because a program that is not Python does not have them.
//! Invariants: all of them are called with the interpreter's lock held ([`Locked`]) and with
//! objects that are alive ([`Live`]); an error that one of them sets is cleared here, except that
//! of a function in Python.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};

use super::CodeFlags;
use super::arguments::Arguments;

/// An object of Python. Its fields belong to the interpreter.
#[derive(Debug)]
#[repr(C)]
pub struct Object {
    _head: [usize; 2],
}

type FastCall =
    unsafe extern "C" fn(*mut Object, *const *mut Object, isize, *mut Object) -> *mut Object;
type ArrayCall = unsafe extern "C" fn(*mut Object, *const *mut Object, isize) -> *mut Object;
type PlainCall = unsafe extern "C" fn(*mut Object, *mut Object) -> *mut Object;

/// How the interpreter calls a function.
#[derive(Clone, Copy)]
pub(super) enum CallKind {
    /// With its object and an array of arguments, which may have names (`METH_FASTCALL |
    /// METH_KEYWORDS`).
    Fast(FastCall),
    /// With its object (`METH_NOARGS`).
    Plain(PlainCall),
    /// With its object and an array of arguments (`METH_FASTCALL`).
    Array(ArrayCall),
}

/// `PyMethodDef`.
#[repr(C)]
pub(super) struct Method {
    name: *const c_char,
    function: *const c_void,
    flags: c_int,
    doc: *const c_char,
}

// SAFETY: the pointers are to static data.
unsafe impl Sync for Method {}

impl Method {
    pub(super) const fn new(name: &'static CStr, call: CallKind, doc: &'static CStr) -> Self {
        let (function, flags) = match call {
            CallKind::Fast(function) => (function as *const c_void, 0x80 | 0x2),
            CallKind::Plain(function) => (function as *const c_void, 0x4),
            CallKind::Array(function) => (function as *const c_void, 0x80),
        };
        Self {
            name: name.as_ptr(),
            function,
            flags,
            doc: doc.as_ptr(),
        }
    }

    /// Ends an array of methods.
    pub(super) const fn end() -> Self {
        Self {
            name: ptr::null(),
            function: ptr::null(),
            flags: 0,
            doc: ptr::null(),
        }
    }
}

/// `PyType_Slot`.
#[repr(C)]
pub(super) struct TypeSlot {
    pub(super) slot: c_int,
    pub(super) value: *const c_void,
}

/// `PyType_Spec`.
#[repr(C)]
pub(super) struct TypeSpec {
    pub(super) name: *const c_char,
    pub(super) bytes: c_int,
    pub(super) item_bytes: c_int,
    pub(super) flags: c_uint,
    pub(super) slots: *const TypeSlot,
}

/// Declares the table of functions, which are looked up by the names of their fields.
macro_rules! functions {
    ($($field:ident = $name:ident: $type:ty,)+) => {
        /// The functions of the interpreter.
        pub(super) struct Interpreter {
            none: Live,
            $($field: $type,)+
        }

        impl Interpreter {
            /// Looks the functions up; `None` if one is missing.
            pub(super) fn of_process() -> Option<Self> {
                Some(Self {
                    none: Live(find(concat!("_Py_NoneStruct", "\0"))?.cast()),
                    $($field: {
                        let found = find(concat!(stringify!($name), "\0"))?;
                        // SAFETY: the stable interface of CPython declares the function so.
                        unsafe { std::mem::transmute::<NonNull<c_void>, $type>(found) }
                    },)+
                })
            }
        }
    };
}

functions! {
    keep = Py_IncRef: unsafe extern "C" fn(*mut Object),
    release = Py_DecRef: unsafe extern "C" fn(*mut Object),
    clear_error = PyErr_Clear: unsafe extern "C" fn(),
    text = PyUnicode_AsUTF8AndSize: unsafe extern "C" fn(*mut Object, *mut isize) -> *const c_char,
    intern = PyUnicode_InternFromString: unsafe extern "C" fn(*const c_char) -> *mut Object,
    bytes = PyBytes_AsString: unsafe extern "C" fn(*mut Object) -> *const c_char,
    frame = PyEval_GetFrame: unsafe extern "C" fn() -> *mut Object,
    code = PyFrame_GetCode: unsafe extern "C" fn(*mut Object) -> *mut Object,
    attribute = PyObject_GetAttr: unsafe extern "C" fn(*mut Object, *mut Object) -> *mut Object,
    long = PyLong_AsLong: unsafe extern "C" fn(*mut Object) -> std::ffi::c_long,
    call = PyObject_Call: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object) -> *mut Object,
    tuple = PyTuple_New: unsafe extern "C" fn(isize) -> *mut Object,
    set_item = PyTuple_SetItem: unsafe extern "C" fn(*mut Object, isize, *mut Object) -> c_int,
    item = PyTuple_GetItem: unsafe extern "C" fn(*mut Object, isize) -> *mut Object,
    items = PyTuple_Size: unsafe extern "C" fn(*mut Object) -> isize,
    dict = PyDict_New: unsafe extern "C" fn() -> *mut Object,
    set_key = PyDict_SetItem: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object) -> c_int,
    function = PyCFunction_NewEx: unsafe extern "C" fn(*const Method, *mut Object, *mut Object) -> *mut Object,
    make_type = PyType_FromSpec: unsafe extern "C" fn(*const TypeSpec) -> *mut Object,
    allocate = PyType_GenericAlloc: unsafe extern "C" fn(*mut Object, isize) -> *mut Object,
    free = PyObject_Free: unsafe extern "C" fn(*mut c_void),
}

/// The address of a symbol of the process. The name ends with a zero.
fn find(name: &'static str) -> Option<NonNull<c_void>> {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
    // SAFETY: the name is terminated; looking a symbol up runs no code of it.
    let found = NonNull::new(unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    if found.is_none() {
        // SAFETY: takes the message of the failed look-up.
        let _ = unsafe { libc::dlerror() };
    }
    found
}

/// An object that is alive: an argument of a call that has not returned, or one that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Live(NonNull<Object>);

impl Live {
    /// `None` for a null pointer.
    ///
    /// # Safety
    /// The object is alive as long as the value is used.
    pub(super) unsafe fn new(object: *mut Object) -> Option<Self> {
        NonNull::new(object).map(Self)
    }

    pub(super) const fn as_ptr(self) -> *mut Object {
        self.0.as_ptr()
    }
}

/// A reference to an object, which is released when the value is dropped.
pub(super) struct Owned<'a> {
    python: Locked<'a>,
    object: Live,
}

impl Owned<'_> {
    pub(super) const fn live(&self) -> Live {
        self.object
    }

    /// The object for somebody who takes the reference.
    pub(super) const fn into_ptr(self) -> *mut Object {
        let object = self.object.as_ptr();
        std::mem::forget(self);
        object
    }
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        self.python.release(self.object.as_ptr());
    }
}

impl Interpreter {
    /// The interpreter while its lock is held.
    ///
    /// # Safety
    /// The calling thread holds the lock as long as the value is used.
    pub(super) const unsafe fn locked(&self) -> Locked<'_> {
        Locked(self)
    }
}

/// The interpreter while the calling thread holds its lock.
#[derive(Clone, Copy)]
pub(super) struct Locked<'a>(&'a Interpreter);

impl<'a> Locked<'a> {
    /// A new reference to `None`.
    pub(super) fn none(self) -> *mut Object {
        self.kept(self.0.none).into_ptr()
    }

    /// A new reference to an object.
    pub(super) fn kept(self, object: Live) -> Owned<'a> {
        // SAFETY: the lock is held, and the object is alive.
        unsafe { (self.0.keep)(object.as_ptr()) };
        Owned {
            python: self,
            object,
        }
    }

    /// Releases a reference, if there is one.
    pub(super) fn release(self, object: *mut Object) {
        // SAFETY: the lock is held; null, or an object whose reference the caller gives up.
        unsafe { (self.0.release)(object) };
    }

    /// The reference that a function has returned. Clears the error that it has set otherwise.
    fn owned(self, result: *mut Object) -> Option<Owned<'a>> {
        // SAFETY: a new reference keeps its object alive.
        let object = unsafe { Live::new(result) };
        if object.is_none() {
            self.clear_error();
        }
        object.map(|object| Owned {
            python: self,
            object,
        })
    }

    fn clear_error(self) {
        // SAFETY: the lock is held.
        unsafe { (self.0.clear_error)() };
    }

    /// The text of an object, which ends with a zero and lives as long as the object. `None` if it
    /// is not a text, or none in UTF-8.
    pub(super) fn text(self, object: Live) -> Option<*const c_char> {
        // SAFETY: the lock is held, the object is alive, and null is allowed for the length.
        let text = unsafe { (self.0.text)(object.as_ptr(), ptr::null_mut()) };
        if text.is_null() {
            self.clear_error();
        }
        (!text.is_null()).then_some(text)
    }

    /// The bytes of an object, which end with a zero; null if it has none.
    pub(super) fn bytes(self, object: Live) -> *const c_char {
        if object == self.0.none {
            return ptr::null();
        }
        // SAFETY: the lock is held, and the object is alive.
        let bytes = unsafe { (self.0.bytes)(object.as_ptr()) };
        if bytes.is_null() {
            self.clear_error();
        }
        bytes
    }

    pub(super) fn interned(self, text: &'static CStr) -> Option<Owned<'a>> {
        // SAFETY: the lock is held, and the text ends with a zero.
        self.owned(unsafe { (self.0.intern)(text.as_ptr()) })
    }

    /// The flags of the code of the Python function that has called.
    pub(super) fn caller_flags(self, co_flags: Live) -> Option<CodeFlags> {
        // SAFETY: the lock is held.
        let frame = NonNull::new(unsafe { (self.0.frame)() })?;
        // SAFETY: the lock is held, and the frame is that of the caller.
        let code = self.owned(unsafe { (self.0.code)(frame.as_ptr()) })?;
        // SAFETY: the lock is held, and both objects are alive.
        let flags = unsafe { (self.0.attribute)(code.live().as_ptr(), co_flags.as_ptr()) };
        let flags = self.owned(flags)?;
        // SAFETY: the lock is held, and the object is alive.
        let flags = unsafe { (self.0.long)(flags.live().as_ptr()) };
        CodeFlags::try_from(flags).ok()
    }

    /// Calls a function in Python with these arguments. Null if it raises an error, which the
    /// caller passes on.
    pub(super) fn call(self, function: Live, arguments: &Arguments<'_>) -> *mut Object {
        let values = arguments.positional().iter().map(|value| self.kept(*value));
        let Some(tuple) = self.tuple(values.collect()) else {
            return self.none();
        };
        let fields = self.fields(arguments);
        let named = fields
            .as_ref()
            .map_or(ptr::null_mut(), |fields| fields.live().as_ptr());
        // SAFETY: the lock is held, the objects are alive, and null stands for no names.
        unsafe { (self.0.call)(function.as_ptr(), tuple.live().as_ptr(), named) }
    }

    /// Calls a function in Python with one argument. `None` if it raises an error.
    pub(super) fn call_with(self, function: Live, argument: Owned<'a>) -> Option<Owned<'a>> {
        let tuple = self.tuple(vec![argument])?;
        let arguments = tuple.live().as_ptr();
        // SAFETY: the lock is held, the objects are alive, and null stands for no names.
        self.owned(unsafe { (self.0.call)(function.as_ptr(), arguments, ptr::null_mut()) })
    }

    /// A dictionary of the arguments that have names; `None` if none has one.
    pub(super) fn fields(self, arguments: &Arguments<'_>) -> Option<Owned<'a>> {
        let names = arguments.names()?;
        // SAFETY: the lock is held.
        let fields = self.owned(unsafe { (self.0.dict)() })?;
        for (place, value) in (0..).zip(arguments.named()) {
            // SAFETY: the lock is held, and there is a name for each of these values.
            let name = unsafe { (self.0.item)(names.as_ptr(), place) };
            let dict = fields.live().as_ptr();
            // SAFETY: the lock is held, and the objects are alive.
            if unsafe { (self.0.set_key)(dict, name, value.as_ptr()) } != 0 {
                self.clear_error();
            }
        }
        Some(fields)
    }

    /// The number of objects in a tuple.
    pub(super) fn items(self, tuple: Live) -> usize {
        // SAFETY: the lock is held, and the object is alive.
        let items = unsafe { (self.0.items)(tuple.as_ptr()) };
        usize::try_from(items).unwrap_or(0)
    }

    /// A tuple of these objects.
    pub(super) fn tuple(self, values: Vec<Owned<'a>>) -> Option<Owned<'a>> {
        // SAFETY: the lock is held.
        let tuple = self.owned(unsafe { (self.0.tuple)(values.len().cast_signed()) })?;
        for (place, value) in (0..).zip(values) {
            // SAFETY: the lock is held; the new tuple has this place, and takes the reference.
            unsafe { (self.0.set_item)(tuple.live().as_ptr(), place, value.into_ptr()) };
        }
        Some(tuple)
    }

    pub(super) fn function(self, method: &'static Method) -> Option<Owned<'a>> {
        // SAFETY: the lock is held; the description lives as long as the function.
        let made = unsafe { (self.0.function)(method, ptr::null_mut(), ptr::null_mut()) };
        self.owned(made)
    }

    /// Makes a type.
    ///
    /// # Safety
    /// The specification describes functions and fields as the interpreter expects them. Its name
    /// and its methods are static.
    pub(super) unsafe fn make_type(self, spec: &TypeSpec) -> Option<Owned<'a>> {
        // SAFETY: the lock is held; the caller's condition.
        self.owned(unsafe { (self.0.make_type)(spec) })
    }

    /// A new object of this type, whose own bytes are zero. The object keeps its type.
    pub(super) fn allocate(self, of: Live) -> Option<Owned<'a>> {
        // SAFETY: the lock is held, and the type is alive.
        self.owned(unsafe { (self.0.allocate)(of.as_ptr(), 0) })
    }

    /// Frees the memory of an object of this type.
    ///
    /// # Safety
    /// [`Self::allocate`] has made the object, and there is no reference to it.
    pub(super) unsafe fn free(self, object: *mut Object, of: Live) {
        // SAFETY: the lock is held; the caller's condition.
        unsafe { (self.0.free)(object.cast()) };
        self.release(of.as_ptr()); // that of the object
    }
}
