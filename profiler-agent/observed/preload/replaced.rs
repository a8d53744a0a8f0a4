//! Functions of the C library that this library replaces: each calls the one that it replaces.
//!
//! The macro [`replaced`] defines them. A function that no file behind this library has fails like
//! a system call that does not exist. Invariant: a replaced function sets `errno` only as the one
//! that it calls does, except in that case.

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::loaded;

/// The result of functions that do not exist.
pub(crate) const MISSING: isize = -1;

/// A function that this library replaces.
#[derive(Debug)]
pub(crate) struct Original {
    name: &'static CStr,
    /// Its address; 0 until it is looked up, 1 if there is none.
    address: AtomicUsize,
}

impl Original {
    /// The function of this name.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicUsize::new(0),
        }
    }

    /// Its address. Looks it up at the first call: many programs call few of the functions.
    pub(crate) fn get(&self) -> Option<usize> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address == 0 {
            address = loaded::next_function(self.name).unwrap_or(1);
            self.address.store(address, Ordering::Relaxed);
        }
        (address != 1).then_some(address)
    }
}

/// Defines functions with the name and the type of those that they replace. `around` gets the
/// arguments and calls the original.
macro_rules! replaced {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty = $around:expr;)*) => {
        $(
            /// Replaces the function of the C library with this name.
            ///
            /// # Safety
            /// As for the replaced function.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
                static ORIGINAL: $crate::replaced::Original = $crate::replaced::Original::new(
                    match core::ffi::CStr::from_bytes_with_nul(
                        concat!(stringify!($name), "\0").as_bytes(),
                    ) {
                        Ok(name) => name,
                        Err(_) => c"",
                    },
                );
                let Some(address) = ORIGINAL.get() else {
                    return $crate::replaced::MISSING as $result;
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
