//! The states of the slots for copied stacks. Signal handlers claim slots, and the sampler empties
//! them.
//!
//! A handler claims the first free slot, fills it, and publishes it. The handler never waits. The
//! sampler reads the full slots and releases them. If no slot is free, the sample is dropped and
//! counted. Its processor time is in the thread's next sample.
//!
//! ```text
//!        claim (handler)        publish (handler)
//! free ──────────────────▶ filling ───────────────▶ full
//!   ▲                                                 │ release (sampler)
//!   └─────────────────────────────────────────────────┘
//! ```
//!
//! Orderings: publishing releases the contents, and the sampler's read of the state acquires them.
//! Releasing a slot releases the sampler's reads, and a claim acquires them: no handler writes to a
//! slot that the sampler still reads. A model below checks this.
//!
//! A handler claims the first free slot. So the number of slots that are ever used is the largest
//! number that were in use at the same time. The contents of the slots are in `sample_handler`.

use crate::sync::{AtomicU32, Ordering};

const FREE: u32 = 0;
const FILLING: u32 = 1;
const FULL: u32 = 2;

/// The states of all slots.
#[derive(Debug)]
pub(super) struct SlotStates {
    states: Box<[AtomicU32]>,
    /// The number of samples that are published and not yet released.
    waiting: AtomicU32,
    /// The number of samples that found no free slot since it was last taken.
    lost: AtomicU32,
    /// The number of waiting samples at which the sampler is woken.
    wake_at: AtomicU32,
}

/// The right of a handler to fill a slot.
#[derive(Debug)]
pub(super) struct Claim {
    slot: usize,
}

impl Claim {
    /// The number of the slot.
    pub(super) const fn slot(&self) -> usize {
        self.slot
    }
}

impl SlotStates {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            states: (0..slots).map(|_| AtomicU32::new(FREE)).collect(),
            waiting: AtomicU32::new(0),
            lost: AtomicU32::new(0),
            wake_at: AtomicU32::new(1),
        }
    }

    /// Chooses when the sampler is woken: by the next sample, or when half of the slots are full.
    pub(super) fn wake_at_next(&self, next: bool) {
        let half = u32::try_from(self.states.len().div_ceil(2)).unwrap_or(u32::MAX);
        self.wake_at
            .store(if next { 1 } else { half }, Ordering::Relaxed);
    }

    /// Claims a free slot. If no slot is free, counts the sample as lost and returns `None`. For
    /// signal handlers.
    pub(super) fn claim(&self) -> Option<Claim> {
        let is_claimed = |state: &AtomicU32| {
            state.load(Ordering::Relaxed) == FREE
                && state
                    .compare_exchange(FREE, FILLING, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        };
        let slot = self.states.iter().position(is_claimed);
        if slot.is_none() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        slot.map(|slot| Claim { slot })
    }

    /// Publishes a filled slot. True if the sampler should be woken. For signal handlers.
    pub(super) fn publish(&self, claim: Claim) -> bool {
        if let Some(state) = self.states.get(claim.slot) {
            state.store(FULL, Ordering::Release);
        }
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        waiting >= self.wake_at.load(Ordering::Relaxed)
    }

    /// The full slots. Called by the sampler only.
    pub(super) fn full(&self) -> impl Iterator<Item = usize> + '_ {
        self.states
            .iter()
            .enumerate()
            .filter(|(_, state)| state.load(Ordering::Acquire) == FULL)
            .map(|(slot, _)| slot)
    }

    /// Gives back a slot from [`SlotStates::full`]. Called by the sampler only.
    pub(super) fn release(&self, slot: usize) {
        if let Some(state) = self.states.get(slot) {
            state.store(FREE, Ordering::Release);
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are samples that are published and not yet released.
    pub(super) fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// The number of slots.
    pub(super) fn number(&self) -> usize {
        self.states.len()
    }

    /// The number of samples that found no free slot since the last call.
    pub(super) fn take_lost(&self) -> u32 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_slot_is_claimed_and_half_of_them_wake_the_sampler() {
        let slots = SlotStates::new(4);
        slots.wake_at_next(false);
        let first = slots.claim().unwrap();
        let second = slots.claim().unwrap();
        assert_eq!((first.slot(), second.slot()), (0, 1));
        assert!(!slots.publish(second));
        assert_eq!(slots.full().collect::<Vec<_>>(), [1]);
        assert!(slots.publish(first), "half of the slots are full");
        slots.release(0);
        slots.release(1);
        let again = slots.claim().unwrap();
        assert_eq!(again.slot(), 0);
        slots.wake_at_next(true);
        assert!(slots.publish(again), "the sampler waits for any sample");
    }

    #[test]
    fn a_sample_without_a_free_slot_is_counted() {
        let slots = SlotStates::new(1);
        let _claim = slots.claim().unwrap();
        assert!(slots.claim().is_none());
        assert_eq!((slots.take_lost(), slots.take_lost()), (1, 0));
    }
}

#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod models {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;

    use super::*;

    struct Slots {
        states: SlotStates,
        contents: [UnsafeCell<u32>; 1],
    }

    // SAFETY: the model checks that a slot is accessed by its claimer, and then by the sampler.
    unsafe impl Sync for Slots {}

    fn fill(slots: &Slots, value: u32) {
        if let Some(claim) = slots.states.claim() {
            slots.contents[claim.slot()].with_mut(|place| {
                // SAFETY: loom reports an access that is not exclusive.
                unsafe { *place = value };
            });
            slots.states.publish(claim);
        }
    }

    #[test]
    fn loom_a_slot_is_never_read_and_written_at_once() {
        loom::model(|| {
            let slots = Arc::new(Slots {
                states: SlotStates::new(1),
                contents: [UnsafeCell::new(0)],
            });
            let handler = {
                let slots = Arc::clone(&slots);
                loom::thread::spawn(move || {
                    fill(&slots, 1);
                    fill(&slots, 2);
                })
            };
            let read = || {
                let full: Vec<_> = slots.states.full().collect();
                for slot in &full {
                    let value = slots.contents[*slot].with(|place| {
                        // SAFETY: as above.
                        unsafe { *place }
                    });
                    assert!(value != 0, "an unfilled slot was read");
                    slots.states.release(*slot);
                }
                full.len()
            };
            while read() == 0 {
                loom::thread::yield_now();
            }
            read();
            handler.join().unwrap();
        });
    }
}
