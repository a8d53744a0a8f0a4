//! An allocator that counts the calls and bytes of one thread, or the calls of the whole process.
//!
//! Used by tests that assert how much the profiler allocates. Such a program makes it its global
//! allocator. It adds one thread-local test to every allocation. It counts only on threads that are
//! inside [`allocations_of`] or [`bytes_kept_by`], and on all threads during
//! [`allocations_everywhere_during`].

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Calls and bytes of a thread since it began to count.
#[derive(Clone, Copy, Default)]
struct Counted {
    calls: u64,
    kept_bytes: i64,
}

thread_local! {
    // Constant and without a destructor, so the allocator can use it.
    static COUNT: Cell<Option<Counted>> = const { Cell::new(None) };
}

/// The system's allocator, with counts.
#[derive(Debug)]
pub struct CountingAllocator;

/// Whether all threads count.
static ALL: AtomicBool = AtomicBool::new(false);
/// Calls of all threads since all threads count.
static COUNTED: AtomicU64 = AtomicU64::new(0);

fn count(bytes: i64) {
    if ALL.load(Ordering::Relaxed) {
        COUNTED.fetch_add(1, Ordering::Relaxed);
    }
    COUNT.with(|count| {
        let Some(counted) = count.get() else { return };
        count.set(Some(Counted {
            calls: counted.calls + 1,
            kept_bytes: counted.kept_bytes + bytes,
        }));
    });
}

/// Returns the size as a signed number. A size is at most `isize::MAX`.
fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is passed unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size) - signed(layout.size()));
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.dealloc(old, layout) }
    }
}

fn counted(body: impl FnOnce()) -> Counted {
    COUNT.set(Some(Counted::default()));
    body();
    COUNT.take().unwrap_or_default()
}

/// Returns how often `body` went to the allocator, freeing included, on the calling thread.
pub fn allocations_of(body: impl FnOnce()) -> u64 {
    counted(body).calls
}

/// Returns the bytes that `body` allocated and did not free, on the calling thread.
pub fn bytes_kept_by(body: impl FnOnce()) -> i64 {
    counted(body).kept_bytes
}

/// Returns how often all threads of the process called the allocator while `body` ran.
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
    fn a_box_makes_two_allocator_calls() {
        let boxed = || drop(std::hint::black_box(Box::new(7)));
        assert_eq!((allocations_of(boxed), allocations_of(|| {})), (2, 0));
    }

    #[test]
    fn freed_bytes_are_not_kept_bytes() {
        let mut kept = Vec::<u8>::new();
        let bytes = bytes_kept_by(|| {
            kept = Vec::with_capacity(1000);
            drop(std::hint::black_box(vec![1_u8; 50]));
        });
        assert_eq!((bytes, bytes_kept_by(|| drop(kept))), (1000, -1000));
    }
}
