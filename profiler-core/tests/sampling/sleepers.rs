//! Tests of threads that wait in system calls: their samples show where they wait, and their waits
//! are not interrupted.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use profiler_core::session::SampleSource;
use test_support::own_process;

use super::busy::beside;
use super::read::{SOURCES, Seen, Session, samples_for, ticks_of, until};

/// Waits repeatedly, as an event loop does, and counts the waits that a signal interrupted.
#[inline(never)]
fn wait_often(stop: &AtomicBool, interrupted: &AtomicU64, wait: fn() -> libc::c_int) -> u64 {
    while !stop.load(Ordering::Relaxed) {
        let failed = wait();
        if failed < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) {
            interrupted.fetch_add(1, Ordering::Relaxed);
        }
    }
    0
}

fn poll() -> libc::c_int {
    // SAFETY: the number of descriptors is 0, so the pointer is not read.
    unsafe { libc::poll(std::ptr::null_mut(), 0, 20) }
}

fn nanosleep() -> libc::c_int {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    // SAFETY: `time` lives through the call, and no remaining time is requested.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) }
}

/// Waits for a futex, with a timeout.
fn sem_timedwait() -> libc::c_int {
    let mut until = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `until` is a live variable.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until) };
    until.tv_nsec += 20_000_000;
    (until.tv_sec, until.tv_nsec) = (
        until.tv_sec + until.tv_nsec / 1_000_000_000,
        until.tv_nsec % 1_000_000_000,
    );
    // SAFETY: `sem_t` is plain memory, for which zeros are valid.
    let mut semaphore: libc::sem_t = unsafe { std::mem::zeroed() };
    // SAFETY: `semaphore` is a live variable, which the call initializes.
    assert_eq!(unsafe { libc::sem_init(&raw mut semaphore, 0, 0) }, 0);
    // SAFETY: the semaphore is initialized; both variables live through the call.
    unsafe { libc::sem_timedwait(&raw mut semaphore, &raw const until) }
}

/// Waits below `levels` more frames.
#[inline(never)]
fn wait_below(levels: u64) -> libc::c_int {
    let failed = if levels == 0 {
        sem_timedwait()
    } else {
        wait_below(levels - 1)
    };
    std::hint::black_box(failed)
}

#[test]
fn a_wait_for_a_futex_with_a_timeout_is_seldom_interrupted() {
    own_process!();
    let _session = Session::start(&[]);
    let interrupted = AtomicU64::new(0);
    let waits = AtomicU64::new(0);
    let work = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            // Every wait is at another depth than the one before, so every wait is sampled.
            let failed = wait_below(waits.fetch_add(1, Ordering::Relaxed) % 7);
            let is_interrupted =
                std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR);
            interrupted.fetch_add(u64::from(failed < 0 && is_interrupted), Ordering::Relaxed);
        }
        0
    };
    beside("waiter", work, |_| {
        until(|| (waits.load(Ordering::Relaxed) > 60).then_some(()))
    });
    let interrupted = interrupted.into_inner();
    let waits = waits.into_inner();
    // Some interruptions are possible: a wait that begins during the check is interrupted.
    assert!(interrupted * 4 <= waits, "{interrupted} of {waits}");
}

#[test]
fn a_thread_that_waits_in_a_loop_is_shown_there_and_hardly_ever_interrupted() {
    own_process!();
    for (source, wait) in SOURCES
        .into_iter()
        .flat_map(|source| [poll, nanosleep].map(|wait| (source, wait)))
    {
        let _session = Session::by(source);
        let interrupted = AtomicU64::new(0);
        let work = |stop: &AtomicBool| wait_often(stop, &interrupted, wait);
        beside("waiter", work, |thread| {
            let is_shown = |sample: &Seen| {
                sample.place_of(wait_often as *const ()).is_some()
                    && !sample.failed
                    && sample.addresses.len() > 4
            };
            // On a busy machine the thread may need long until it begins with its first wait.
            let samples = until(|| {
                let mut all = samples_for(thread, 400);
                let begun = all.iter().position(is_shown)?;
                let samples = all.split_off(begun);
                (ticks_of(&samples) >= 400).then_some(samples)
            });
            let shown = ticks_of(samples.iter().filter(|sample| is_shown(sample)));
            let all = ticks_of(&samples);
            assert!(
                shown * 10 >= all * 9,
                "{source:?}: {shown} of {all} ticks: {:?}",
                samples.last()
            );
        });
        // A few interruptions are possible on a busy machine: see docs/failure-modes.md.
        let interrupted = interrupted.into_inner();
        assert!(interrupted <= 4, "{interrupted} times");
    }
}

#[test]
fn the_stack_of_a_thread_that_sleeps_in_the_standard_library_is_complete() {
    own_process!();
    for source in SOURCES {
        sleep_in_the_standard_library(source);
    }
}

fn sleep_in_the_standard_library(source: SampleSource) {
    let _session = Session::by(source);
    let sleep = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(30));
        }
        0
    };
    beside("sleeper", sleep, |thread| {
        let samples = samples_for(thread, 200);
        let whole = samples
            .iter()
            .filter(|sample| !sample.failed && sample.addresses.len() > 5);
        let whole = ticks_of(whole);
        let all = ticks_of(&samples);
        assert!(
            whole * 10 >= all * 9,
            "{source:?}: {whole} of {all} ticks: {:?}",
            samples.last()
        );
    });
}
