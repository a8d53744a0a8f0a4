//! One look-up: where it may look, and how much it may still read of all files together.
//!
//! Made by [`super::Symbols`], handed to whatever opens a file. Invariant: however many files are named, and however large
//! they are, no more than [`SymbolOptions::sum_limit`] is read of them, and unpacked, before the look-up ends.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

use super::options::SymbolOptions;

/// Bytes that may still be read.
#[derive(Clone, Debug)]
pub(super) struct Budget(Rc<Cell<u64>>);

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self(Rc::new(Cell::new(bytes)))
    }

    pub(super) fn left(&self) -> u64 {
        self.0.get()
    }

    /// Whether that much may still be read; then it counts as read. One that asks for more has used it up.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let rest = self.left().checked_sub(bytes);
        self.0.set(rest.unwrap_or(0));
        rest.is_some()
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Reading {
    options: SymbolOptions,
    pub(super) budget: Budget,
}

impl Reading {
    pub(super) fn new(options: &SymbolOptions, left: u64) -> Self {
        Self { options: options.clone(), budget: Budget::new(left) }
    }
}

impl Deref for Reading {
    type Target = SymbolOptions;

    fn deref(&self) -> &SymbolOptions {
        &self.options
    }
}
