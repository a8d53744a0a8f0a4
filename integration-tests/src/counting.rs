//! An allocator that counts: how often did one thread allocate?
//!
//! The allocator of `figures` and `silence`. It adds one thread-local test to every allocation, and counts only on
//! threads that are inside [`allocations_of`].

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    // Constant and without destructor, so it can be used inside the allocator.
    static COUNT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The system's allocator, counting.
#[derive(Debug)]
pub struct CountingAllocator;

/// Whether all threads count, and what they counted.
static ALL: AtomicBool = AtomicBool::new(false);
static COUNTED: AtomicU64 = AtomicU64::new(0);

fn count() {
    if ALL.load(Ordering::Relaxed) {
        COUNTED.fetch_add(1, Ordering::Relaxed);
    }
    COUNT.with(|count| count.set(count.get().map(|count| count + 1)));
}

// SAFETY: every call goes unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(old, layout) }
    }
}

/// How often `body` went to the allocator, freeing included, on the calling thread.
pub fn allocations_of(body: impl FnOnce()) -> u64 {
    COUNT.with(|count| count.set(Some(0)));
    body();
    COUNT.with(Cell::take).unwrap_or(0)
}

/// How often all threads of the process went to the allocator while `body` ran.
pub fn allocations_everywhere_during(body: impl FnOnce()) -> u64 {
    COUNTED.store(0, Ordering::Relaxed);
    ALL.store(true, Ordering::Relaxed);
    body();
    ALL.store(false, Ordering::Relaxed);
    COUNTED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn a_box_is_two_calls() {
        let boxed = || drop(std::hint::black_box(Box::new(7)));
        assert_eq!((allocations_of(boxed), allocations_of(|| {})), (2, 0));
    }
}
