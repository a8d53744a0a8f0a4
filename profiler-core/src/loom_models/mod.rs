//! Models of what several modules do together, under all interleavings. `.ci/run loom` runs them.
//!
//! A protocol that lives in one module has its model beside it. Invariant of all models: they call
//! the shipped code; only memory and the course of a thread are the model's own.

mod allowance;
mod chunk_life;
mod moved_books;
mod put_back;
mod rows;

use crate::pool::Words;
use crate::sync::AtomicU64;

/// Memory of which only the pages count.
struct NoWords;

impl Words for NoWords {
    fn word(&self, _: u64) -> Option<&AtomicU64> {
        None
    }
}
