//! Tests of the samples of forked children that begin to record anew.

#![allow(unsafe_code)]

use profiler_core::sampler::SamplingStats;
use profiler_core::session::{self, Features};
use test_support::own_process;
use test_support::patience::until;

use crate::after_fork::{begin_anew, is_true_in_child, record, start};

/// Makes a timer that is not armed.
fn make_timer() -> Option<libc::timer_t> {
    // SAFETY: a structure of numbers and pointers, for which zeros are valid.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_NONE;
    let mut timer = std::ptr::null_mut();
    // SAFETY: reads one structure, and writes the new timer to a local.
    let failed =
        unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    (failed == 0).then_some(timer)
}

fn exists(timer: libc::timer_t) -> bool {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut left: libc::itimerspec = unsafe { std::mem::zeroed() };
    // SAFETY: writes one structure. The system reports a timer that does not exist.
    unsafe { libc::timer_gettime(timer, &raw mut left) == 0 }
}

const SAMPLES: Features = Features::STACK_WALK.with(Features::CPU);

/// Computes until the calling thread has been sampled so that `is_enough`. False if it is not.
fn is_sampled(is_enough: fn(SamplingStats) -> bool) -> bool {
    until(|| {
        record(1);
        (0..1_000_000_u64).for_each(|number| _ = std::hint::black_box(number));
        session::sampling_stats().is_some_and(is_enough)
    })
}

#[test]
fn a_child_that_a_thread_has_forked_is_sampled_with_its_stack() {
    own_process!(); // this test runs on a thread
    assert!(start(SAMPLES));
    let child = || {
        let is_started = begin_anew().is_ok() && start(SAMPLES);
        // The stack of a sample without a copy has at most two frames.
        is_started && is_sampled(|stats| stats.frames > 3 * stats.taken)
    };
    assert!(is_true_in_child(child));
    session::stop();
}

#[test]
fn timers_of_a_child_are_not_taken_for_those_of_its_parent() {
    own_process!();
    assert!(start(SAMPLES));
    assert!(is_sampled(|stats| stats.taken > 0), "it has no timer");
    let child = || {
        // The system gives them the same numbers as the timers of the parent.
        let timers: Vec<_> = (0..32).filter_map(|_| make_timer()).collect();
        let is_started = begin_anew().is_ok() && start(SAMPLES);
        record(1);
        session::stop(); // deletes the timers of the profiler
        is_started && timers.len() == 32 && timers.into_iter().all(exists)
    };
    assert!(is_true_in_child(child));
    session::stop();
}
