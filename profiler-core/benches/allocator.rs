//! What does the profiling allocator cost per allocation and free, next to the system's own?
//!
//! Off, on with the counter alone, and on with samples. Without stacks, which cost what the stack's depth says.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use profiler_core::alloc::ProfilingAllocator;
use profiler_core::session::{self, Features, SessionParams, StartOptions};

#[global_allocator]
static ALLOCATOR: ProfilingAllocator = ProfilingAllocator::new();

fn pair() {
    drop(black_box(Box::new([0_u8; 64])));
}

#[allow(unsafe_code)]
fn pair_of_the_system() {
    use std::alloc::{GlobalAlloc, Layout, System};
    let layout = Layout::new::<[u8; 64]>();
    // SAFETY: the layout has a size.
    let address = black_box(unsafe { System.alloc(layout) });
    // SAFETY: from this allocator, of this layout.
    unsafe { System.dealloc(address, layout) };
}

fn allocate(c: &mut Criterion) {
    let mut group = c.benchmark_group("allocate_and_free");
    group.bench_function("system", |b| b.iter(pair_of_the_system));
    group.bench_function("off", |b| b.iter(pair));
    for (name, features) in [("counted", Features::NONE), ("sampled", Features::NATIVE_ALLOCATIONS)] {
        let params = SessionParams { features, ..SessionParams::default() };
        session::start(params, StartOptions::default()).expect("a session starts");
        group.bench_function(name, |b| b.iter(pair));
        session::stop();
    }
    group.finish();
}

criterion_group!(benches, allocate);
criterion_main!(benches);
