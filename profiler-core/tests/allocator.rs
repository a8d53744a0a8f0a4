//! Test of a counter and a marker inside the global allocator. The profiler allocates on its slow
//! paths, so both are recorded in the middle of its own work. No lock may be taken twice.

use std::alloc::{GlobalAlloc, Layout, System};

use profiler_core::counter::Counter;
use profiler_core::internal::reader::PoolReader;
use profiler_core::marker;
use profiler_core::session::DropReason;
use profiler_core::session::{self, SessionParams, StartOptions};
use test_support::own_process;
use test_support::threads::on_thread;

static ALLOCATED: Counter = Counter::new("Allocated", "Memory", "Bytes from the global allocator");

struct Recording;

// SAFETY: every call is passed to the system's allocator unchanged.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Recording {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.add(i64::try_from(layout.size()).unwrap_or(0));
        marker!("alloc");
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.add(-i64::try_from(layout.size()).unwrap_or(0));
        // SAFETY: the caller guarantees what the system's allocator requires.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Recording = Recording;

#[test]
fn recording_inside_the_allocator_neither_deadlocks_nor_recurses() {
    own_process!();
    session::start(SessionParams::default(), StartOptions::default()).unwrap();
    let kept: Vec<Vec<u8>> = (0..1000).map(|_| vec![1; 1000]).collect();
    let body = || drop(std::hint::black_box(vec![0_u8; 64]));
    on_thread(body);
    let counted = ALLOCATED.get();
    assert!(counted >= 1_000_000, "{counted} bytes counted");
    let counts = PoolReader::open(session::pool_file().unwrap())
        .unwrap()
        .snapshot()
        .unwrap()
        .counts();
    // On a busy machine a chunk may not be ready in time; the dropped entries are counted.
    let full = counts.dropped.of(DropReason::Full);
    assert!(
        counts.delivered > 0 && counts.delivered + full >= 1000,
        "{counts:?}"
    );
    drop(kept);
    session::stop();
}
