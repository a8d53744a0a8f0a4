//! Large values that are made on the heap without passing through the stack.
//!
//! Used when a thread of the host makes a value of several KiB on first use: its stack may be
//! small, and `Box::new` builds its argument on the stack before it moves it. Invariant: the value
//! in a [`Template`] is only copied from.

#![allow(unsafe_code)]

use std::ptr;

/// The source of copies for new values, for a static.
#[derive(Debug)]
pub(crate) struct Template<T>(T);

// SAFETY: no reference to the value is ever handed out; its bytes are read and never written.
unsafe impl<T> Sync for Template<T> {}

impl<T> Template<T> {
    /// A template with this value.
    ///
    /// # Safety
    /// The value owns nothing, so each bytewise copy is a valid value of the type.
    pub(crate) const unsafe fn new(value: T) -> Self {
        Self(value)
    }

    /// A new copy of the value.
    pub(crate) fn boxed(&'static self) -> Box<T> {
        let mut place = Box::<T>::new_uninit();
        // SAFETY: copies a value of the type to new memory for one.
        unsafe { ptr::copy_nonoverlapping(&raw const self.0, place.as_mut_ptr(), 1) };
        // SAFETY: initialised by the copy, which is a valid value by the promise of `new`.
        unsafe { place.assume_init() }
    }
}
