//! Threads that wait: they are shown where they wait, and not disturbed.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use profiler_core::session;

use crate::busy::beside;
use crate::read::{Session, samples_of};

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

#[test]
fn a_thread_that_waits_in_a_loop_is_shown_there_and_never_interrupted() {
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
        assert!(interrupted.into_inner() <= 4);
    }
}

#[test]
fn a_thread_that_sleeps_in_the_standard_library_is_followed_to_its_start() {
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
