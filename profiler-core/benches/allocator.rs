//! Benchmark: the cost of an allocation and its free with the profiling allocator, compared with
//! the system's allocator.
//!
//! Measured without a session, with the counter alone, and with samples. The samples have no
//! stacks, because the cost of a stack depends on its depth.

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
    // SAFETY: the layout's size is not zero.
    let address = black_box(unsafe { System.alloc(layout) });
    // SAFETY: the address comes from this allocator, with this layout.
    unsafe { System.dealloc(address, layout) };
}

fn allocate(c: &mut Criterion) {
    let mut group = c.benchmark_group("allocate_and_free");
    group.bench_function("system", |b| b.iter(pair_of_the_system));
    group.bench_function("off", |b| b.iter(pair));
    for (name, features) in [
        ("counted", Features::NONE),
        ("sampled", Features::NATIVE_ALLOCATIONS),
    ] {
        let params = SessionParams {
            features,
            ..SessionParams::default()
        };
        session::start(params, StartOptions::default()).expect("a session starts");
        group.bench_function(name, |b| b.iter(pair));
        session::stop();
    }
    group.finish();
}

criterion_group!(benches, allocate);
criterion_main!(benches);
