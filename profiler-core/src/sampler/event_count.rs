//! Lets the sampler wait until a thread has answered.
//!
//! The sampler waits; handlers ring. Waking the sampler doubles the time that a handler holds its
//! thread. So the sampler polls for the answer for some microseconds before it sleeps, and a
//! handler makes a system call only if the sampler sleeps. If polling did not help, because no
//! processor is free for the asked thread, the next polls are shorter.
//!
//! Invariant, by two full fences: either the ringing handler sees the sleeper, or the sleeper sees
//! the writes made before the ring.
//!
//! ```text
//! handler: slot full ─▶ rung + 1 ─▶ fence ─▶ asleep? wake
//! sampler: asleep = 1 ─▶ fence ─▶ rung? ─▶ slot full? ─▶ sleep unless rung meanwhile
//! ```

use std::time::{Duration, Instant};

use super::schedule::now;
use crate::sync::{AtomicU32, Ordering, full_fence};
#[cfg(not(loom))]
use crate::sys::native::wake;

/// The shortest and the longest time to poll for an answer: delivering a signal takes some
/// microseconds.
const WATCH: (Duration, Duration) = (Duration::from_micros(2), Duration::from_micros(40));

/// The event count shared by all slots.
#[derive(Debug)]
pub(super) struct EventCount {
    rung: AtomicU32,
    asleep: AtomicU32,
}

impl EventCount {
    pub(super) fn new() -> Self {
        Self {
            rung: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
        }
    }

    /// Reports an answer. For signal handlers: the caller preserves `errno`.
    pub(super) fn ring(&self) {
        if self.must_wake() {
            #[cfg(not(loom))]
            wake::wake(&self.rung);
        }
    }

    fn must_wake(&self) -> bool {
        self.rung.fetch_add(1, Ordering::Release);
        full_fence();
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// Announces a sleep and returns the value to sleep on; `None` if the answer is there.
    fn announce_sleep(&self, is_there: impl Fn() -> bool) -> Option<u32> {
        self.asleep.store(1, Ordering::Relaxed);
        full_fence();
        let rung = self.rung.load(Ordering::Acquire);
        (!is_there()).then_some(rung)
    }

    /// Sleeps until the answer is there or the deadline has passed. False if there is no answer.
    fn sleep(&self, until: Instant, is_there: impl Fn() -> bool) -> bool {
        let mut came = true;
        while let Some(_rung) = self.announce_sleep(&is_there) {
            let left = until.saturating_duration_since(now());
            if left == Duration::ZERO {
                came = false;
                break;
            }
            #[cfg(not(loom))]
            wake::wait(&self.rung, _rung, left);
        }
        self.asleep.store(0, Ordering::Relaxed);
        came
    }
}

/// The sampler's side: polls, then sleeps.
#[derive(Debug)]
pub(super) struct Patience {
    watch: Duration,
}

impl Patience {
    pub(super) const fn new() -> Self {
        Self { watch: WATCH.1 }
    }

    /// Waits until the answer is there or the deadline has passed. False if there is no answer.
    pub(super) fn wait(
        &mut self,
        bell: &EventCount,
        until: Instant,
        is_there: impl Fn() -> bool,
    ) -> bool {
        if is_there() {
            return true;
        }
        let came = watch(
            self.watch.min(until.saturating_duration_since(now())),
            &is_there,
        );
        self.learn(came);
        came || bell.sleep(until, is_there)
    }

    fn learn(&mut self, came: bool) {
        let next = if came { self.watch * 2 } else { self.watch / 2 };
        self.watch = next.clamp(WATCH.0, WATCH.1);
    }
}

/// Polls for the answer for at most this time.
fn watch(at_most: Duration, is_there: impl Fn() -> bool) -> bool {
    let end = now() + at_most;
    loop {
        // Reading the clock takes as long as several polls.
        for _ in 0..16 {
            if is_there() {
                return true;
            }
            std::hint::spin_loop();
        }
        if now() >= end {
            return false;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn only_a_sleeper_is_woken() {
        let bell = EventCount::new();
        assert!(!bell.must_wake());
        assert_eq!(bell.announce_sleep(|| false), Some(1));
        assert!(bell.must_wake());
        assert!(!bell.sleep(now(), || false), "the time has passed");
        assert!(!bell.must_wake(), "the sleeper is awake again");
    }

    #[test]
    fn an_answer_wakes_the_sleeper() {
        let bell = EventCount::new();
        let answer = AtomicBool::new(false);
        let is_there = || answer.load(Ordering::Acquire);
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| bell.sleep(now() + Duration::from_secs(60), is_there));
            while bell.asleep.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            answer.store(true, Ordering::Release);
            bell.ring();
            assert!(sleeper.join().unwrap());
        });
    }

    #[test]
    fn polling_gets_shorter_while_it_does_not_help() {
        let bell = EventCount::new();
        let mut patience = Patience::new();
        for _ in 0..10 {
            assert!(!patience.wait(&bell, now(), || false));
        }
        assert_eq!(patience.watch, WATCH.0);
        let polls = std::cell::Cell::new(0);
        // If the machine preempts this thread between two polls, an answer is late.
        let is_longest = (0..10_000).any(|_| {
            polls.set(0);
            let at_the_second_poll = || polls.replace(polls.get() + 1) == 1;
            assert!(patience.wait(&bell, now() + Duration::from_secs(60), at_the_second_poll));
            patience.watch == WATCH.1
        });
        assert!(is_longest, "{:?}", patience.watch);
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;

    use super::*;
    use crate::sync::AtomicU64;

    #[test]
    fn loom_no_answer_is_slept_through() {
        loom::model(|| {
            let bell = Arc::new(EventCount::new());
            let slot = Arc::new(AtomicU64::new(0));
            let handler = {
                let bell = Arc::clone(&bell);
                let slot = Arc::clone(&slot);
                loom::thread::spawn(move || {
                    slot.store(1, Ordering::Release);
                    bell.must_wake()
                })
            };
            let slept_on = bell.announce_sleep(|| slot.load(Ordering::Acquire) == 1);
            // The system compares the word again before it puts a thread to sleep on it.
            let sleeps = slept_on.is_some_and(|rung| bell.rung.load(Ordering::Relaxed) == rung);
            let woke = handler.join().unwrap();
            assert!(woke || !sleeps, "the sleeper is not woken");
        });
    }
}
