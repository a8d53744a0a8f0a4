//! Waking the maintenance thread: one atomic swap, and a futex wake only if it sleeps.
//!
//! `notify` is called by recording threads at a chunk switch; it takes no lock on Linux. One
//! thread waits.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const IDLE: u32 = 0;
const NOTIFIED: u32 = 1;
const SLEEPING: u32 = 2;

/// A wake-up that is remembered until a thread waits for it.
#[derive(Debug)]
pub(crate) struct Event {
    word: AtomicU32,
    #[cfg(not(all(target_os = "linux", not(profiler_portable))))]
    gate: (std::sync::Mutex<()>, std::sync::Condvar),
}

impl Event {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(IDLE),
            #[cfg(not(all(target_os = "linux", not(profiler_portable))))]
            gate: Default::default(),
        }
    }

    /// Wakes the waiting thread, or makes its next wait return at once.
    pub(crate) fn notify(&self) {
        if self.word.swap(NOTIFIED, Ordering::AcqRel) == SLEEPING {
            self.wake();
        }
    }

    /// Whether a thread waits, and no notification has come since.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.word.load(Ordering::Acquire) == SLEEPING
    }

    /// Waits for a notification, at most `timeout`.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        if self
            .word
            .compare_exchange(IDLE, SLEEPING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            self.sleep(timeout);
        }
        self.word.swap(IDLE, Ordering::AcqRel);
    }

    #[cfg(all(target_os = "linux", not(profiler_portable)))]
    fn wake(&self) {
        let _ = rustix::thread::futex::wake(&self.word, rustix::thread::futex::Flags::PRIVATE, 1);
    }

    /// Sleeps while the word is unchanged. A spurious return only causes an early pass of the loop.
    #[cfg(all(target_os = "linux", not(profiler_portable)))]
    fn sleep(&self, timeout: Option<Duration>) {
        let timeout =
            timeout.and_then(|timeout| rustix::thread::futex::Timespec::try_from(timeout).ok());
        let flags = rustix::thread::futex::Flags::PRIVATE;
        let _ = rustix::thread::futex::wait(&self.word, flags, SLEEPING, timeout.as_ref());
    }

    #[cfg(not(all(target_os = "linux", not(profiler_portable))))]
    fn wake(&self) {
        let _held = self
            .gate
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        self.gate.1.notify_one();
    }

    #[cfg(not(all(target_os = "linux", not(profiler_portable))))]
    fn sleep(&self, timeout: Option<Duration>) {
        let held = self
            .gate
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if self.word.load(Ordering::Acquire) != SLEEPING {
            return;
        }
        let timeout = timeout.unwrap_or(Duration::from_secs(3600));
        let _ = self.gate.1.wait_timeout(held, timeout);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_notification_before_the_wait_is_not_lost() {
        let event = Event::new();
        event.notify();
        assert!(!event.is_waited_for());
        event.wait(None);
    }

    #[test]
    fn every_notification_of_many_threads_is_answered() {
        let event = Arc::new(Event::new());
        let count = Arc::new(AtomicU32::new(0));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let event = Arc::clone(&event);
                let count = Arc::clone(&count);
                std::thread::Builder::new().spawn(move || {
                    for _ in 0..1000 {
                        count.fetch_add(1, Ordering::SeqCst);
                        event.notify();
                    }
                })
            })
            .collect();
        while count.load(Ordering::SeqCst) < 4000 {
            event.wait(None);
        }
        threads
            .into_iter()
            .for_each(|thread| thread.unwrap().join().unwrap());
    }
}
