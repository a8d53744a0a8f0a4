//! Figures: the cost of jobs in a context, and of parallel iterators with and without one.
//!
//! ```text
//! cargo bench -p profiler-rayon
//! name<TAB>value<TAB>unit<TAB>promise
//! ```
//!
//! Each operation is repeated in short rounds, and the fastest round counts: a round that was
//! interrupted says nothing about the operation. The first row is the cost while no session runs.
//! There are no promises: a job costs what its groups cost, and the rows show both.

use std::hint::black_box;

use profiler_core::group;
use profiler_core::groups::{Probes, set_probes};
use profiler_core::session::{self, SessionParams, StartOptions};
use profiler_core::time::Timestamp;
use profiler_rayon::{JobContext, PoolProfile, job_site};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use test_support::patience::Stopwatch;

const ROUNDS: u32 = 300;
const REPETITIONS: u32 = 300;
/// Chunks of the parallel iterators, and the items of each.
const CHUNKS: u32 = 1000;
const ITEMS: usize = 1000;

/// The nanoseconds of one of the `count` operations that a call executes, in the fastest round.
fn nanoseconds(count: u32, operations: impl Fn()) -> f64 {
    let round = || {
        let watch = Stopwatch::start();
        operations();
        watch.elapsed()
    };
    let fastest = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    fastest.as_secs_f64() * 1e9 / f64::from(count)
}

/// Prints the cost of a call.
fn put(name: &str, operation: impl Fn()) {
    let repeated = || (0..REPETITIONS).for_each(|_| operation());
    let ns = nanoseconds(REPETITIONS, repeated);
    println!("rayon.{name}.ns\t{ns:.3}\tns\t-");
}

/// The work of a chunk. Not inlined, so that it is the same code with and without a context.
#[inline(never)]
fn sum(chunk: &[u64]) -> u64 {
    chunk.iter().fold(0, |sum, item| sum ^ black_box(*item))
}

/// Prints the cost of a chunk with and without a context.
fn put_chunks(name: &str, pool: &ThreadPool, context: &JobContext, items: &[u64]) {
    let chunks = || items.par_chunks(ITEMS);
    let without = || {
        black_box(chunks().map(sum).max());
    };
    let with = || {
        let in_context = |chunk| context.run(|| sum(chunk));
        black_box(chunks().map(in_context).max());
    };
    let measure = || [nanoseconds(CHUNKS, without), nanoseconds(CHUNKS, with)];
    let [without, with] = pool.install(measure);
    println!("rayon.{name}.plain_chunk.ns\t{without:.3}\tns\t-");
    println!("rayon.{name}.context_chunk.ns\t{with:.3}\tns\t-");
}

/// Runs `body` on top of this many jobs.
fn inside(depth: u32, context: &JobContext, body: &dyn Fn()) {
    match depth {
        0 => body(),
        _ => context.run(|| inside(depth - 1, context, body)),
    }
}

fn main() {
    let [context, other] = [group!("bench"), group!("other")].map(|group| JobContext::of([group]));
    let named = context.clone().named(job_site!("named"));
    let profile = PoolProfile::new("bench");
    let pool = profile.build(ThreadPoolBuilder::new().num_threads(2));
    let pool = pool.expect("a pool");
    let items = vec![7; ITEMS * CHUNKS as usize];

    put("disabled", || context.run(|| ()));
    put_chunks("disabled", &pool, &context, &items);
    session::start(SessionParams::default(), StartOptions::default()).expect("a session");
    let intervals = named.clone().intervals();
    for (probes, suffix) in [
        (Probes::NONE, "unmeasured"),
        (Probes::JANK, "wall"),
        (Probes::ALL, "all_probes"),
    ] {
        set_probes(probes);
        put(&format!("{suffix}.two_clock_reads"), || {
            black_box((Timestamp::now(), Timestamp::now()));
        });
        put(&format!("{suffix}.group_alone"), || {
            drop(group!("bench").enter())
        });
        put(&format!("{suffix}.job"), || context.run(|| ()));
        put(&format!("{suffix}.named_job"), || named.run(|| ()));
        put(&format!("{suffix}.interval_job"), || intervals.run(|| ()));
        inside(1, &other, &|| {
            put(&format!("{suffix}.job_on_top_of_1"), || context.run(|| ()));
        });
        inside(10, &other, &|| {
            put(&format!("{suffix}.job_on_top_of_10"), || context.run(|| ()));
        });
        put_chunks(suffix, &pool, &context, &items);
    }
    session::stop();
}
