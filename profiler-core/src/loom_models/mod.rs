//! Models of protocols between several modules, checked under all interleavings by loom.
//! `.ci/run loom` runs them.
//!
//! The model of a protocol within one module is in that module. Invariant of all models: they call
//! the shipped code; only the memory and the steps of each thread belong to the model.

mod allowance;
mod chunk_life;
mod moved_counts;
mod put_back;
mod rows;

use crate::pool::Words;
use crate::sync::AtomicU64;

/// Memory without contents, for models that only count its pages.
struct NoWords;

impl Words for NoWords {
    fn word(&self, _: u64) -> Option<&AtomicU64> {
        None
    }
}
