//! Waiting for a signal handler, and waking from one: a futex, which any context may use.

use std::time::Duration;

use rustix::thread::futex;

use crate::sync::fixed::AtomicU32;

/// Sleeps until `word` is no longer `seen`, a wake-up arrives, or the time has passed.
pub(crate) fn wait(word: &AtomicU32, seen: u32, at_most: Duration) {
    let timeout = rustix::fs::Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    let _ = futex::wait(word, futex::Flags::PRIVATE, seen, Some(&timeout));
}

/// Wakes the threads that sleep on `word`. For signal handlers too: the caller keeps `errno`.
pub(crate) fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}
