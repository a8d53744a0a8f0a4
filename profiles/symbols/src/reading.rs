//! The options of one look-up, and its remaining read budget over all files.
//!
//! Created by [`super::Symbols`], passed to all code that opens a file. Invariant: a look-up reads
//! and unpacks at most [`SymbolOptions::sum_limit`] bytes, for any number and size of files.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

use super::kept::KeptFiles;
use super::options::SymbolOptions;

/// The remaining bytes that may be read.
#[derive(Clone, Debug)]
pub(super) struct Budget(Rc<Cell<u64>>);

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self(Rc::new(Cell::new(bytes)))
    }

    pub(super) fn left(&self) -> u64 {
        self.0.get()
    }

    /// Charges a read of `bytes` bytes. Returns whether the budget allows it; if not, the budget
    /// becomes 0.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let rest = self.left().checked_sub(bytes);
        self.0.set(rest.unwrap_or(0));
        rest.is_some()
    }
}

/// The options and the budget of one look-up.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    options: SymbolOptions,
    pub(super) budget: Budget,
    pub(super) kept: KeptFiles,
}

impl Reading {
    pub(super) fn new(options: &SymbolOptions, left: u64) -> Self {
        Self {
            options: options.clone(),
            budget: Budget::new(left),
            kept: KeptFiles::default(),
        }
    }

    /// The same, with open files of modules.
    pub(super) fn with_kept(self, kept: KeptFiles) -> Self {
        Self { kept, ..self }
    }
}

impl Deref for Reading {
    type Target = SymbolOptions;

    fn deref(&self) -> &SymbolOptions {
        &self.options
    }
}
