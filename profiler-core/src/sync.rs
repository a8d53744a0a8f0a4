//! Atomics for lock-free code: std in the shipped build, loom in the model-checked one.
//!
//! Lock-free code (`pool::{slot, budget, definitions}`, `manager::{ready, full_chunks}`,
//! `record::biased_lock`, `sampler::slots`) imports atomics from here only, so loom
//! checks the shipped code. Statics need `const` constructors, which loom lacks; they use
//! [`fixed`], and no model-checked code touches them.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Atomics for statics: always those of std.
pub(crate) mod fixed {
    pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

/// The owner's half of an asymmetric fence; the other half is a barrier on all threads
/// (`sys::barrier_on_all_threads`). Loom has no such barrier, so there both halves are full fences.
#[inline(always)]
pub(crate) fn light_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// A full fence: no access before the fence becomes visible after an access that follows it.
pub(crate) fn full_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::SeqCst);
    #[cfg(not(loom))]
    std::sync::atomic::fence(Ordering::SeqCst);
}
