//! How much work a file's debug information may be, and how many inlined functions it may give.
//!
//! Used by everything in [`super`]. A healthy file needs about one step per byte; a hostile one can refer to the same
//! bytes from everywhere, and would keep us busy for ever. Invariant: every loop over what a file says charges for its steps,
//! and every inlined function at an address takes a place.

use std::cell::Cell;

/// Steps per byte of debug information.
const STEPS_PER_BYTE: u64 = 8;
/// Steps that a file of any size may take.
const STEPS: u64 = 4 << 20;

/// Places for inlined functions: per address, whoever has them, and as many for all.
const INLINED_PER_ADDRESS: u64 = 8;
const INLINED: u64 = 1 << 16;

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

/// What is left of steps, and of places for inlined functions.
#[derive(Debug)]
pub(super) struct Work {
    steps: Cell<u64>,
    places: Cell<u64>,
    left_out: Cell<u64>,
}

impl Work {
    /// For that many bytes and addresses.
    pub(super) fn new(bytes: u64, addresses: usize) -> Self {
        let steps = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS);
        let places = (addresses as u64).saturating_mul(INLINED_PER_ADDRESS).saturating_add(INLINED);
        Self { steps: Cell::new(steps), places: Cell::new(places), left_out: Cell::new(0) }
    }

    /// Takes a place for an inlined function at an address; false if there is none, which is counted.
    pub(super) fn take_place(&self) -> bool {
        let left = self.places.get().checked_sub(1);
        match left {
            Some(left) => self.places.set(left),
            None => self.left_out.set(self.left_out.get() + 1),
        }
        left.is_some()
    }

    /// How many inlined functions found no place. Those within them are not counted.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.get()
    }

    /// Takes steps, if there are as many.
    pub(super) fn charge(&self, steps: usize) -> Result<(), Stop> {
        match self.steps.get().checked_sub(steps as u64) {
            Some(left) => {
                self.steps.set(left);
                Ok(())
            }
            None => {
                self.steps.set(0);
                Err(Stop::Exhausted)
            }
        }
    }
}
