//! Limits how many messages of one child wait for the supervisor.
//!
//! The receiving thread acquires a slot for each message; the supervisor releases it when it has
//! handled the message. Invariant: if the receiving thread finds no free slot, the callback runs
//! after the next release, in every interleaving of the two threads.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::IN_FLIGHT;

/// The slots of one child.
pub(super) struct MessageSlots {
    taken: Mutex<u32>,
    /// Called when a slot is released while all are in use.
    on_available: Box<dyn Fn() + Send + Sync>,
}

/// One slot. Dropping it releases the slot.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<MessageSlots>);

impl MessageSlots {
    /// Creates the slots, all free. `on_available` runs on the supervisor's thread when a slot is
    /// released while all are in use; it must not block.
    pub(super) fn new(on_available: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::new(0),
            on_available: Box::new(on_available),
        })
    }

    /// Takes a slot for a message. One must be free.
    pub(super) fn acquire(self: &Arc<Self>) -> InFlight {
        *self.lock() += 1;
        InFlight(Arc::clone(self))
    }

    /// Whether all slots are in use.
    pub(super) fn is_full(&self) -> bool {
        *self.lock() >= IN_FLIGHT
    }

    fn lock(&self) -> MutexGuard<'_, u32> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut taken = self.0.lock();
        let was_full = *taken >= IN_FLIGHT;
        *taken = taken.saturating_sub(1);
        drop(taken);
        if was_full {
            (self.0.on_available)();
        }
    }
}

impl fmt::Debug for MessageSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageSlots")
            .field("taken", &self.taken)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn the_callback_runs_once_when_a_slot_is_released_and_all_were_in_use() {
        let calls = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&calls);
        let slots = MessageSlots::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let mut held: Vec<InFlight> = (1..IN_FLIGHT).map(|_| slots.acquire()).collect();
        drop(held.pop());
        assert_eq!(
            calls.load(Ordering::Relaxed),
            0,
            "a slot was free all the time"
        );
        held.extend([slots.acquire(), slots.acquire()]);
        assert!(slots.is_full());
        drop(held.pop());
        drop(held.pop());
        assert!(!slots.is_full());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
