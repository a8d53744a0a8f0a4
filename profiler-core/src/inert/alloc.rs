//! A global allocator that only calls the allocator that it wraps.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// A global allocator that measures nothing.
#[derive(Debug)]
pub struct ProfilingAllocator<A = System> {
    inner: A,
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
    pub const fn around(inner: A) -> Self {
        Self { inner }
    }

    /// Does nothing.
    #[must_use]
    pub const fn sampling_every(self, _bytes: u32) -> Self {
        self
    }

    /// Does nothing.
    #[must_use]
    pub const fn with_seed(self, _seed: u64) -> Self {
        self
    }
}

// SAFETY: every call is passed to the inner allocator unchanged, and its result is returned
// unchanged.
unsafe impl<A: GlobalAlloc> GlobalAlloc for ProfilingAllocator<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.dealloc(address, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, address: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.inner.realloc(address, layout, new_size) }
    }
}
