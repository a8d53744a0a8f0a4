//! A global allocator that counts the program's memory and samples its allocations.
//!
//! ```
//! use profiler_core::alloc::ProfilingAllocator;
//!
//! #[global_allocator]
//! static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new();
//! # fn main() {}
//! ```
//!
//! - While a session runs: the counter "malloc", the bytes allocated less the bytes freed since the
//!   session started (`byte_counter`). Costs about 5 ns per call.
//! - With [`crate::session::Features::NATIVE_ALLOCATIONS`]: sampled allocations with their stacks,
//!   and the frees of those (`sampling_interval`, `live`, `sampled`). Costs a subtraction per
//!   allocation, a cache line per free, and some microseconds per sample.
//! - While no session runs: costs one relaxed load.
//!
//! The allocator fails only where the inner one fails, and changes neither size nor alignment. It
//! works before `main`, while threads end, and in forked children, where it only calls the inner
//! allocator. The profiler itself allocates on its slow paths: memory that it allocates while it
//! records is counted but never sampled, so the recording does not recurse.

mod byte_counter;
mod live;
mod sampled;
mod sampling_interval;

pub(crate) use byte_counter::flush_counters;
pub(crate) use sampled::{begin_session, end_session};

use std::alloc::{GlobalAlloc, Layout, System};

use crate::record::session_state;
use sampling_interval::Sampling;

/// A global allocator that counts and samples the calls to another one. See the [module](self).
#[derive(Debug)]
pub struct ProfilingAllocator<A = System> {
    inner: A,
    sampling: Sampling,
}

impl ProfilingAllocator {
    /// Wraps the system's allocator.
    pub const fn new() -> Self {
        Self::around(System)
    }
}

impl Default for ProfilingAllocator {
    fn default() -> Self {
        Self::new()
    }
}

impl<A> ProfilingAllocator<A> {
    /// Wraps any allocator.
    ///
    /// ```
    /// use std::alloc::System;
    /// use profiler_core::alloc::ProfilingAllocator;
    ///
    /// static ALLOCATOR: ProfilingAllocator<System> = ProfilingAllocator::around(System);
    /// ```
    pub const fn around(inner: A) -> Self {
        Self {
            inner,
            sampling: Sampling::DEFAULT,
        }
    }

    /// Samples one byte in `bytes` on average; 0 counts as 1: every allocation. By default 65,536.
    #[must_use]
    pub const fn sampling_every(mut self, bytes: u32) -> Self {
        self.sampling = self.sampling.every(bytes);
        self
    }

    /// Seeds the random samples, for tests. By default they differ by thread and by run.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.sampling = self.sampling.seeded(seed);
        self
    }

    #[inline]
    fn allocated(&self, address: *mut u8, size: usize) {
        if cfg!(feature = "enabled") && session_state::is_active() && !address.is_null() {
            byte_counter::add(signed(size));
            sampled::allocated(address.addr() as u64, size as u64, &self.sampling);
        }
    }

    #[inline]
    fn freed(&self, address: *mut u8, size: usize) {
        if cfg!(feature = "enabled") && session_state::is_active() {
            byte_counter::add(signed(size).saturating_neg());
            sampled::freed(address.addr() as u64);
        }
    }

    /// Undoes [`Self::freed`] for memory that was not freed after all.
    #[cold]
    fn kept(&self, address: *mut u8, size: usize) {
        if cfg!(feature = "enabled") && session_state::is_active() {
            byte_counter::add(signed(size));
            sampled::allocated(address.addr() as u64, size as u64, &self.sampling);
        }
    }
}

/// A layout's size is at most `isize::MAX`.
fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is passed to the inner allocator unchanged, and its result is returned
// unchanged. The code in between does not panic, and its own allocations are not sampled.
#[allow(unsafe_code)]
unsafe impl<A: GlobalAlloc> GlobalAlloc for ProfilingAllocator<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        let address = unsafe { self.inner.alloc(layout) };
        self.allocated(address, layout.size());
        address
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        let address = unsafe { self.inner.alloc_zeroed(layout) };
        self.allocated(address, layout.size());
        address
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // Before the call: afterwards another thread may own the address.
        self.freed(address, layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.dealloc(address, layout) }
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        self.freed(address, layout.size());
        // SAFETY: the caller's promise, passed on.
        let moved = unsafe { self.inner.realloc(address, layout, new_size) };
        if moved.is_null() {
            self.kept(address, layout.size());
        } else {
            self.allocated(moved, new_size);
        }
        moved
    }
}
