//! The stack of done chunks: where a writer's switch leaves the full one, without a lock.
//!
//! Pushed by recording threads, emptied as a whole by whoever holds the manager's lock. The
//! links live in the chunks' own slots. Emptying takes all at once, so a chunk is never popped
//! alone and the classic ABA of Treiber's stack (1986) cannot happen.

use crate::ids::ChunkIndex;
use crate::pool::slot::ChunkSlot;
use crate::sync::{AtomicU64, Ordering};

/// Where slots are found by number.
pub(crate) trait Slots {
    /// The slot with this number, if there is one.
    fn slot(&self, index: ChunkIndex) -> Option<&ChunkSlot>;
}

/// Head of the stack: slot number + 1, 0 when empty.
#[derive(Debug)]
pub(crate) struct DoneChunks {
    head: AtomicU64,
}

impl DoneChunks {
    pub(crate) fn new() -> Self {
        Self { head: AtomicU64::new(0) }
    }

    /// Puts a chunk on the stack. The caller gives it up. Lock-free.
    pub(crate) fn push(&self, slot: &ChunkSlot, index: ChunkIndex) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            slot.set_link(unpack(head));
            match self.head.compare_exchange_weak(head, pack(index), Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes all chunks, the one pushed first in front. The caller holds the manager's lock.
    pub(crate) fn take_all(&self, slots: &impl Slots) -> Vec<ChunkIndex> {
        let mut next = unpack(self.head.swap(0, Ordering::Acquire));
        let mut taken = Vec::new();
        while let Some(index) = next {
            taken.push(index);
            next = slots.slot(index).and_then(ChunkSlot::link);
        }
        taken.reverse();
        taken
    }
}

fn pack(index: ChunkIndex) -> u64 {
    u64::from(index.get()).wrapping_add(1)
}

fn unpack(word: u64) -> Option<ChunkIndex> {
    u32::try_from(word.checked_sub(1)?).ok().map(ChunkIndex::new)
}
