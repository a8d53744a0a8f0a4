//! Functions of the C library that this library replaces: each calls the one that it replaces.
//!
//! The macro [`replaced`] defines them. [`find_all`] looks the replaced ones up when the library is
//! loaded: a later look-up could not be made everywhere, for example in a child of `clone` without
//! thread-locals. A function that no file behind this library has is looked up again when it is
//! called: a library that was loaded later may have it, as `libpthread` before glibc 2.34. If there
//! is none, the function fails like a system call that does not exist. Invariant: a replaced function changes `errno` only as the one that it calls
//! does.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::loaded::{self, Name};

const ENOSYS: c_int = 38;

/// Where the C library keeps the calling thread's `errno`; glibc and musl have the same name for it.
static ERRNO: Original = Original::new(c"__errno_location");
/// Functions that are called and not replaced.
pub(crate) static CALLED: &[&Original] = &[&ERRNO];

/// The result of a function that does not exist: it is -1, and `errno` says why.
pub(crate) fn missing() -> isize {
    type Location = unsafe extern "C" fn() -> *mut c_int;
    if let Some(location) = ERRNO.get() {
        // SAFETY: the C library's function of this name has this type.
        let location = unsafe { core::mem::transmute::<usize, Location>(location) };
        // SAFETY: the function has no argument.
        let errno = unsafe { location() };
        // SAFETY: the place of the calling thread, or null.
        if let Some(errno) = unsafe { errno.as_mut() } {
            *errno = ENOSYS;
        }
    }
    -1
}

const UNKNOWN: usize = 0;
const NONE: usize = 1;

/// A function that this library replaces.
#[derive(Debug)]
pub(crate) struct Original {
    name: Name,
    address: AtomicUsize,
}

impl Original {
    /// The function of this name.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name: Name::new(name),
            address: AtomicUsize::new(UNKNOWN),
        }
    }

    /// Its address. Looks it up if it is not known: another library calls the function before this
    /// one is initialised, or the function was loaded later.
    pub(crate) fn get(&self) -> Option<usize> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address <= NONE {
            address = loaded::next_function(&self.name).unwrap_or(NONE);
            self.address.store(address, Ordering::Relaxed);
        }
        (address != NONE).then_some(address)
    }
}

/// Looks up the functions of all lists, in one pass over the loaded files.
pub(crate) fn find_all(lists: &[&[&Original]]) {
    let all = || lists.iter().flat_map(|list| list.iter());
    let is_unknown = |original: &&&Original| original.address.load(Ordering::Relaxed) == UNKNOWN;
    loaded::for_each_behind(&mut |symbols| {
        let mut are_all_known = true;
        for original in all().filter(is_unknown) {
            match symbols.function(&original.name) {
                Some(address) => original.address.store(address, Ordering::Relaxed),
                None => are_all_known = false,
            }
        }
        are_all_known
    });
    for original in all().filter(is_unknown) {
        original.address.store(NONE, Ordering::Relaxed);
    }
}

/// Defines functions that have the names and types of functions of the C library, and the list
/// `ORIGINALS` of the functions that they replace. `around` gets the arguments and calls the
/// original.
macro_rules! replaced {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $around:expr;)*) => {
        /// The functions that this module replaces.
        pub(crate) static ORIGINALS: &[&$crate::replaced::Original] = &[$(&$name::ORIGINAL),*];
        $(
            mod $name {
                pub(super) static ORIGINAL: $crate::replaced::Original = $crate::replaced::Original::new(
                    match core::ffi::CStr::from_bytes_with_nul(
                        concat!(stringify!($name), "\0").as_bytes(),
                    ) {
                        Ok(name) => name,
                        Err(_) => c"",
                    },
                );
            }

            /// Replaces the function of the C library with this name.
            ///
            /// # Safety
            /// As for the replaced function.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                let Some(address) = $name::ORIGINAL.get() else {
                    return $crate::replaced::missing() as $result;
                };
                type Function = unsafe extern "C" fn($($kind),*) -> $result;
                // SAFETY: the function of this name has this type.
                let original = unsafe { core::mem::transmute::<usize, Function>(address) };
                // SAFETY: the caller's promise for the function that it wanted to call.
                let call = |$($argument: $kind),*| unsafe { original($($argument),*) };
                let around: fn($($kind,)* &dyn Fn($($kind),*) -> $result) -> $result = $around;
                around($($argument,)* &call)
            }
        )*
    };
}
pub(crate) use replaced;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_function_that_does_not_exist_says_so() {
        static NONE: Original = Original::new(c"profiler_observed_no_such_function");
        assert_eq!(NONE.get(), None);
        assert_eq!(missing(), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(ENOSYS));
    }

    #[test]
    fn a_function_of_a_library_that_is_loaded_later_is_found() {
        static LATE: Original = Original::new(c"profiler_observed_late_function");
        find_all(&[&[&LATE]]);
        assert_eq!(LATE.get(), None);
        let directory = tempfile::tempdir().unwrap();
        let (source, library) = (
            directory.path().join("late.c"),
            directory.path().join("late.so"),
        );
        std::fs::write(
            &source,
            "int profiler_observed_late_function(void) { return 7; }",
        )
        .unwrap();
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(&source);
        assert!(compiler.status().unwrap().success());
        unsafe extern "C" {
            fn dlopen(path: *const core::ffi::c_char, flags: c_int) -> *mut core::ffi::c_void;
        }
        let path = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: the path ends with a zero, and the library has no constructors.
        assert!(!unsafe { dlopen(path.as_ptr(), 2) }.is_null());
        let function = LATE.get().unwrap();
        // SAFETY: the function of this name has this type.
        let function = unsafe { core::mem::transmute::<usize, extern "C" fn() -> c_int>(function) };
        assert_eq!(function(), 7);
    }
}
