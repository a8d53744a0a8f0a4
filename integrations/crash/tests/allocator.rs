//! The allocator of the tests, in which a process can crash while it holds the allocator's lock.
//!
//! An allocation in the handler of that crash would wait for ever.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_ARMED: AtomicBool = AtomicBool::new(false);
static IS_LOCKED: AtomicBool = AtomicBool::new(false);

struct CrashingAllocator;

#[global_allocator]
static ALLOCATOR: CrashingAllocator = CrashingAllocator;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for CrashingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_ARMED.load(Ordering::Acquire) {
            allocate_and_crash();
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if IS_ARMED.load(Ordering::Acquire) {
            allocate_and_crash();
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) };
    }
}

#[inline(never)]
fn allocate_and_crash() {
    while IS_LOCKED.swap(true, Ordering::AcqRel) {
        spin_loop();
    }
    crate::ways::fall(0x10);
}

/// Crashes in an allocation, which holds the lock of the allocator.
pub(crate) fn crash() {
    IS_ARMED.store(true, Ordering::Release);
    drop(black_box(Box::new(7_u64)));
}
