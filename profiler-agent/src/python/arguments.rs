//! The arguments of a call of a function by the interpreter.

use std::ptr::NonNull;
use std::slice;

use super::interpreter::{Live, Locked, Object};

/// The arguments: the positional ones, then the values of those with names.
pub(super) struct Arguments<'a> {
    values: &'a [Live],
    positional: usize,
    /// A tuple.
    names: Option<Live>,
}

impl<'a> Arguments<'a> {
    /// The arguments of a call with `METH_FASTCALL | METH_KEYWORDS`.
    ///
    /// # Safety
    /// The interpreter has passed them for a call that does not return during `'a`.
    pub(super) unsafe fn new(
        python: Locked<'_>,
        values: *const *mut Object,
        positional: isize,
        names: *mut Object,
    ) -> Self {
        // SAFETY: the caller's condition.
        let names = unsafe { Live::new(names) };
        let positional = positional.unsigned_abs();
        let all = positional + names.map_or(0, |names| python.items(names));
        let place = NonNull::new(values.cast_mut()).map_or(NonNull::dangling(), NonNull::cast);
        let all = if values.is_null() { 0 } else { all };
        // SAFETY: there are as many objects, which are not null, and `Live` is such a pointer.
        let values: &'a [Live] = unsafe { slice::from_raw_parts(place.as_ptr(), all) };
        Self {
            values,
            positional,
            names,
        }
    }

    pub(super) fn positional(&self) -> &[Live] {
        self.values.get(..self.positional).unwrap_or_default()
    }

    /// The values of the arguments that have names.
    pub(super) fn named(&self) -> &[Live] {
        self.values.get(self.positional..).unwrap_or_default()
    }

    /// The names, if there are some.
    pub(super) const fn names(&self) -> Option<Live> {
        self.names
    }
}
