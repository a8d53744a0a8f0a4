//! Test of the allocations of the sampler: it allocates nothing for a sample after every thread has
//! been sampled at its greatest depth.

#![cfg(all(
    target_os = "linux",
    not(profiler_portable),
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![allow(clippy::disallowed_methods)] // `Instant::now` measures the time of the test

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use profiler_core::session::{self, Features, SessionParams, StartOptions};
use test_support::counting::allocations_everywhere_during;
use test_support::own_process;
use test_support::patience::until;

fn descend(levels: u32) -> u64 {
    let below = if levels == 0 {
        (0..1000).fold(1_u64, |sum, more| {
            std::hint::black_box(sum.wrapping_mul(31) + more)
        })
    } else {
        descend(levels - 1)
    };
    std::hint::black_box(below) + 1
}

/// Waits until about `samples` more samples are taken. Returns the allocations of all threads, and
/// the number of samples.
fn allocations(samples: u64) -> (u64, u64) {
    let taken = || session::sampling_stats().unwrap().taken;
    let begun = taken();
    let wait = || {
        assert!(
            until(|| taken() >= begun + samples),
            "{} of {samples} samples",
            taken() - begun
        )
    };
    (allocations_everywhere_during(wait), taken() - begun)
}

/// Sets a flag on drop, so threads also stop if the test panics.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_sample_allocates_nothing_after_a_warm_up() {
    own_process!();
    let features = Features::STACK_WALK.with(Features::CPU);
    session::start(
        SessionParams {
            features,
            ..SessionParams::default()
        },
        StartOptions::default(),
    )
    .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop_in_the_end = Stop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    descend(100);
                    descend(7);
                }
            });
        }
        allocations(300);
        let begun = Instant::now();
        let (allocations, samples) = allocations(300);
        let seconds = begun.elapsed().as_secs() + 1;
        drop(stop_in_the_end);
        // The remaining allocations depend on time: the lists of threads and modules need about 40
        // per second, and new chunks need some. On a busy machine there are few samples per second.
        let by_time = 60 * seconds;
        assert!(
            allocations < samples / 2 + by_time,
            "{allocations} allocations, {samples} samples, {seconds} s"
        );
        println!("{allocations} allocations in {samples} samples");
    });
    session::stop();
}
