//! Threads that wait: they are shown where they wait, and not disturbed.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use profiler_core::session;
use test_support::own_process;

use super::busy::beside;
use super::read::{Session, samples_of, until};

/// Waits again and again, as an event loop does, and counts the waits that a signal ended.
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
    // SAFETY: no descriptors, so the pointer is not used.
    unsafe { libc::poll(std::ptr::null_mut(), 0, 20) }
}

fn nanosleep() -> libc::c_int {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    // SAFETY: reads a timespec that lives through the call.
    unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) }
}

/// Waits for a futex, with a timeout.
fn sem_timedwait() -> libc::c_int {
    let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes into a timespec that lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until) };
    until.tv_nsec += 20_000_000;
    (until.tv_sec, until.tv_nsec) =
        (until.tv_sec + until.tv_nsec / 1_000_000_000, until.tv_nsec % 1_000_000_000);
    // SAFETY: all zeros are memory for a semaphore.
    let mut semaphore: libc::sem_t = unsafe { std::mem::zeroed() };
    // SAFETY: initialises it, with nothing in it.
    assert_eq!(unsafe { libc::sem_init(&raw mut semaphore, 0, 0) }, 0);
    // SAFETY: initialised above; both live through the call.
    unsafe { libc::sem_timedwait(&raw mut semaphore, &raw const until) }
}

/// Waits further in by so many frames.
#[inline(never)]
fn wait_below(levels: u64) -> libc::c_int {
    let failed = if levels == 0 { sem_timedwait() } else { wait_below(levels - 1) };
    std::hint::black_box(failed)
}

#[test]
fn a_wait_for_a_futex_that_has_a_timeout_is_not_interrupted() {
    own_process!();
    let _session = Session::start(&[]);
    let (interrupted, waits) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            // Each in another place than the one before: so each is sampled.
            let failed = wait_below(waits.fetch_add(1, Ordering::Relaxed) % 7);
            let is_interrupted = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR);
            interrupted.fetch_add(u64::from(failed < 0 && is_interrupted), Ordering::Relaxed);
        }
        0
    };
    beside("waiter", work, |_| until(|| (waits.load(Ordering::Relaxed) > 60).then_some(())));
    let (interrupted, waits) = (interrupted.into_inner(), waits.into_inner());
    // Not none: one that begins just then is.
    assert!(interrupted * 4 <= waits, "{interrupted} of {waits}");
}

#[test]
fn a_thread_that_waits_in_a_loop_is_shown_there_and_never_interrupted() {
    own_process!();
    let _session = Session::start(&[]);
    for wait in [poll, nanosleep] {
        let interrupted = AtomicU64::new(0);
        let work = |stop: &AtomicBool| wait_often(stop, &interrupted, wait);
        beside("waiter", work, |thread| {
            let samples = samples_of(thread, 400);
            let shown = samples.iter().filter(|sample| {
                sample.place_of(wait_often as *const ()).is_some()
                    && !sample.failed
                    && sample.addresses.len() > 4
            });
            let shown = shown.count();
            assert!(shown * 10 >= samples.len() * 9, "{shown} of {}: {:?}", samples.len(), samples.last());
        });
        // Not none: see docs/failure-modes.md, on a machine as busy as one that runs tests.
        let interrupted = interrupted.into_inner();
        assert!(interrupted <= 4, "{interrupted} times");
    }
}

#[test]
fn a_thread_that_sleeps_in_the_standard_library_is_followed_to_its_start() {
    own_process!();
    let _session = Session::start(&[]);
    let sleep = |stop: &AtomicBool| {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(30));
        }
        0
    };
    beside("sleeper", sleep, |thread| {
        let samples = samples_of(thread, 200);
        let whole = samples.iter().filter(|sample| !sample.failed && sample.addresses.len() > 5).count();
        assert!(whole * 10 >= samples.len() * 9, "{whole} of {}: {:?}", samples.len(), samples.last());
        let stats = session::sampling_stats().unwrap();
        assert!(stats.repeated > stats.peeked, "{stats:?}");
    });
}
