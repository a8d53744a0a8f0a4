//! The places that messages of one child have in the hub's queue.
//!
//! Taken by who receives, given back by the hub when it has handled a message. Invariant: whoever
//! finds no place is called when there is one again, however the two threads interleave.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::IN_FLIGHT;

/// The places of one child.
pub(super) struct Places {
    taken: Mutex<u32>,
    /// Called when there is a place again.
    freed: Box<dyn Fn() + Send + Sync>,
}

/// Held while a message waits for the hub; then the child's next one may.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Places>);

impl Places {
    /// All places are free. `freed` is called by the hub's thread whenever the last place was
    /// taken and one is given back; it must not wait.
    pub(super) fn new(freed: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::new(0), freed: Box::new(freed) })
    }

    /// Takes a place for a message. There must be one.
    pub(super) fn take(self: &Arc<Self>) -> InFlight {
        *self.lock() += 1;
        InFlight(Arc::clone(self))
    }

    /// Whether there is no place now.
    pub(super) fn are_taken(&self) -> bool {
        *self.lock() >= IN_FLIGHT
    }

    fn lock(&self) -> MutexGuard<'_, u32> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut taken = self.0.lock();
        let were_taken = *taken >= IN_FLIGHT;
        *taken = taken.saturating_sub(1);
        drop(taken);
        if were_taken {
            (self.0.freed)();
        }
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("taken", &self.taken).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn who_found_no_place_is_called_once_when_there_is_one() {
        let calls = Arc::new(AtomicU32::new(0));
        let theirs = Arc::clone(&calls);
        let places = Places::new(move || {
            theirs.fetch_add(1, Ordering::Relaxed);
        });
        let mut held: Vec<InFlight> = (1..IN_FLIGHT).map(|_| places.take()).collect();
        drop(held.pop());
        assert_eq!(calls.load(Ordering::Relaxed), 0, "there was a place all the time");
        held.extend([places.take(), places.take()]);
        assert!(places.are_taken());
        drop(held.pop());
        drop(held.pop());
        assert!(!places.are_taken());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
