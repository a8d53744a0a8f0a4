//! Bounds the work on a file's debug information, and the number of inlined functions in the
//! result.
//!
//! Used by all of [`super`]. A healthy file needs about one step per byte; a hostile one can refer
//! to the same bytes from everywhere, and would take unbounded time. Invariant: every loop over
//! data of a file charges for its steps, and every inlined function at an address takes a place.

use std::cell::Cell;

/// Steps per byte of debug information.
const STEPS_PER_BYTE: u64 = 8;
/// Steps that a file of any size may take, in addition.
const STEPS: u64 = 4 << 20;

/// Places for inlined functions: this many per address, shared by all addresses, and a fixed number
/// in addition.
const INLINED_PER_ADDRESS: u64 = 8;
const INLINED: u64 = 1 << 16;

/// The reason why reading debug information stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The file needs more work than its size explains.
    #[error("more work than its size explains")]
    Exhausted,
    /// A table is larger than anything that a compiler writes.
    #[error("a table of absurd size")]
    Absurd,
    /// The file is damaged.
    #[error(transparent)]
    Damaged(#[from] gimli::Error),
}

/// The remaining steps, and the remaining places for inlined functions.
#[derive(Debug)]
pub(super) struct Work {
    steps: Cell<u64>,
    places: Cell<u64>,
    left_out: Cell<u64>,
}

impl Work {
    /// Sets the limits for `bytes` bytes and `addresses` addresses.
    pub(super) fn new(bytes: u64, addresses: usize) -> Self {
        let steps = bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(STEPS);
        let places = (addresses as u64)
            .saturating_mul(INLINED_PER_ADDRESS)
            .saturating_add(INLINED);
        Self {
            steps: Cell::new(steps),
            places: Cell::new(places),
            left_out: Cell::new(0),
        }
    }

    /// Takes a place for an inlined function at an address. If there is none, counts that and
    /// returns false.
    pub(super) fn take_place(&self) -> bool {
        let left = self.places.get().checked_sub(1);
        match left {
            Some(left) => self.places.set(left),
            None => self.left_out.set(self.left_out.get() + 1),
        }
        left.is_some()
    }

    /// The number of inlined functions without a place. Functions nested in those are not counted.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.get()
    }

    /// Charges steps; an error if too few are left.
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
