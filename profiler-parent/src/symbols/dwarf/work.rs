//! How much work a file's debug information may be.
//!
//! Used by everything in [`super`]. A healthy file needs about one step per byte; a hostile one can refer to the same
//! bytes from everywhere, and would keep us busy for ever. Invariant: every loop over what a file says charges for its steps.

use std::cell::Cell;

/// Steps per byte of debug information.
const STEPS_PER_BYTE: u64 = 8;
/// Steps that a file of any size may take.
const STEPS: u64 = 4 << 20;

/// Why reading debug information ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::symbols) enum Stop {
    /// The file asks for more work than its size explains.
    #[error("more work than its size explains")]
    Exhausted,
    /// Something in it is larger than anything that a compiler writes.
    #[error("a table of absurd size")]
    Absurd,
    /// The file is damaged.
    #[error(transparent)]
    Damaged(#[from] gimli::Error),
}

/// The steps that are left.
#[derive(Debug)]
pub(super) struct Work(Cell<u64>);

impl Work {
    /// For that many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        Self(Cell::new(bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS)))
    }

    /// Takes steps, if there are as many.
    pub(super) fn charge(&self, steps: usize) -> Result<(), Stop> {
        match self.0.get().checked_sub(steps as u64) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => {
                self.0.set(0);
                Err(Stop::Exhausted)
            }
        }
    }
}
