//! Waits for a word that another thread or a signal handler changes, and wakes the thread that
//! waits.
//!
//! Used by the sampler, whose handler wakes its thread, and by sessions that write their profile on
//! a signal. On Linux the wait is a futex, which any context may wake. Elsewhere the waiting thread
//! looks at the word from time to time. Invariant: [`wake_word`] takes no lock and allocates
//! nothing.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps until `word` is no longer `seen`, a wake-up arrives, or the time has passed. May return
/// earlier.
#[inline]
pub fn wait_on_word(word: &AtomicU32, seen: u32, at_most: Duration) {
    imp::wait(word, seen, at_most);
}

/// Wakes a thread that sleeps on `word`. For signal handlers too: the caller keeps `errno`.
#[inline]
pub fn wake_word(word: &AtomicU32) {
    imp::wake(word);
}

#[cfg(target_os = "linux")]
mod imp {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    use rustix::thread::futex;

    pub(super) fn wait(word: &AtomicU32, seen: u32, at_most: Duration) {
        let timeout = rustix::fs::Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let _ = futex::wait(word, futex::Flags::PRIVATE, seen, Some(&timeout));
    }

    pub(super) fn wake(word: &AtomicU32) {
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    /// Time between two looks at the word.
    const LOOK: Duration = Duration::from_millis(20);

    pub(super) fn wait(word: &AtomicU32, seen: u32, at_most: Duration) {
        if word.load(Ordering::Acquire) == seen {
            std::thread::sleep(at_most.min(LOOK));
        }
    }

    pub(super) fn wake(_: &AtomicU32) {}
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::spawn_quiet;

    #[test]
    fn a_thread_that_waits_is_woken_by_a_change() {
        static WORD: AtomicU32 = AtomicU32::new(0);
        let waiting = spawn_quiet("waits", || {
            while WORD.load(Ordering::Acquire) == 0 {
                wait_on_word(&WORD, 0, Duration::from_secs(600));
            }
        });
        WORD.store(1, Ordering::Release);
        wake_word(&WORD);
        waiting.unwrap().join().unwrap();
    }
}
