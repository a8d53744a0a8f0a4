//! Tests of the sampler in a process that becomes another user while it is sampled.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use profiler_core::session::SampleSource;
use profiler_core::thread;
use test_support::own_process;

use super::busy::{beside, innermost};
use super::read::{Session, more_stacks, until};
use crate::support;

/// A user without special rights.
pub(super) const UNPRIVILEGED: libc::uid_t = 65534;
/// The number of waits of which none may be interrupted.
const WAITS: u64 = 2000;

/// Changes the user of all threads. False, with a printed reason, if the process may not do it.
pub(super) fn has_become(user: libc::uid_t) -> bool {
    // SAFETY: takes a number.
    let group_failed = unsafe { libc::setgid(user) };
    // SAFETY: as above.
    let failed = unsafe { libc::setuid(user) };
    if group_failed != 0 || failed != 0 {
        println!("left out: {}", std::io::Error::last_os_error());
    }
    group_failed == 0 && failed == 0
}

fn is_root() -> bool {
    // SAFETY: has no arguments.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        println!("left out: needs root");
    }
    is_root
}

/// Waits for some microseconds, computes for as long, and so on. Returns the number of waits that
/// ended with `EINTR`.
fn wait_often(made: &AtomicU64, stop: &AtomicBool) -> u64 {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 50_000,
    };
    let mut interrupted = 0;
    while !stop.load(Ordering::Relaxed) {
        (0..50_000_u64).for_each(|number| _ = std::hint::black_box(number));
        // SAFETY: reads a timespec that lives through the call; the other pointer may be null.
        let failed = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
        interrupted += u64::from(failed != 0);
        made.fetch_add(1, Ordering::Relaxed);
    }
    interrupted
}

fn is_sampled_on(source: SampleSource) {
    if !is_root() {
        return;
    }
    let session = Session::by(source);
    let reader = support::pool();
    let shows_innermost = |thread| more_stacks(&reader, thread, innermost as *const ());
    beside("before", innermost, |before| {
        shows_innermost(before);
        if !has_become(UNPRIVILEGED) {
            return;
        }
        shows_innermost(before);
        beside("found", innermost, shows_innermost);
        let joins = |stop: &AtomicBool| {
            thread::register("joins");
            innermost(stop)
        };
        beside("joins", joins, shows_innermost);
        if source == SampleSource::Timer {
            no_wait_is_interrupted();
        }
        shows_innermost(before);
        drop(session);
    });
}

fn no_wait_is_interrupted() {
    let made = AtomicU64::new(0);
    let interrupted = AtomicU64::new(0);
    let work = |stop: &AtomicBool| {
        interrupted.store(wait_often(&made, stop), Ordering::Relaxed);
        0
    };
    beside("waits", work, |_| {
        until(|| (made.load(Ordering::Relaxed) >= WAITS).then_some(()));
    });
    let interrupted = interrupted.load(Ordering::Relaxed);
    let made = made.load(Ordering::Relaxed);
    assert_eq!(interrupted, 0, "of {made} waits");
}

#[test]
fn a_process_that_becomes_another_user_is_sampled_on_by_timers() {
    own_process!();
    is_sampled_on(SampleSource::Timer);
}

#[test]
fn a_process_that_becomes_another_user_is_sampled_on_by_signals() {
    own_process!();
    is_sampled_on(SampleSource::Signal);
}
