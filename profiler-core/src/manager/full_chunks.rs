//! The stack of full chunks: a thread that switches chunks pushes its full chunk here, without a
//! lock. A chunk on the stack is *done*: its thread has left it.
//!
//! Recording threads push; a thread that holds the manager's lock empties the whole stack. The
//! links are stored in the chunks' own slots. All chunks are taken at once and none is popped
//! alone, so the ABA problem of Treiber's stack (1986) cannot occur.

use crate::ids::ChunkIndex;
use crate::pool::slot::ChunkSlot;
use crate::sync::{AtomicU64, Ordering};

/// Access to slots by number.
pub(crate) trait Slots {
    /// The slot with this number, if there is one.
    fn slot(&self, index: ChunkIndex) -> Option<&ChunkSlot>;
}

/// Head of the stack: slot number + 1, 0 when empty.
#[derive(Debug)]
pub(crate) struct FullChunks {
    head: AtomicU64,
}

impl FullChunks {
    pub(crate) fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
        }
    }

    /// Puts a chunk on the stack. The caller no longer owns it. Lock-free.
    pub(crate) fn push(&self, slot: &ChunkSlot, index: ChunkIndex) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            slot.set_link(unpack(head));
            match self.head.compare_exchange_weak(
                head,
                pack(index),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes all chunks, in the order in which they were pushed. The caller holds the manager's
    /// lock.
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
    u32::try_from(word.checked_sub(1)?)
        .ok()
        .map(ChunkIndex::new)
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::super::ready::ReadyChunks;
    use super::*;
    use crate::pool::slot::model::Chunk;
    use crate::time::Timestamp;

    /// Two chunks and the manager's two lock-free structures.
    struct ModelledStack {
        chunks: [Chunk; 2],
        done: FullChunks,
        ready: ReadyChunks,
    }

    impl Slots for ModelledStack {
        fn slot(&self, index: ChunkIndex) -> Option<&ChunkSlot> {
            self.chunks
                .get(index.get() as usize)
                .map(|chunk| &chunk.slot)
        }
    }

    impl ModelledStack {
        fn new() -> Arc<Self> {
            let chunks = [Chunk::new(), Chunk::new()];
            Arc::new(Self {
                chunks,
                done: FullChunks::new(),
                ready: ReadyChunks::new(),
            })
        }

        fn push(&self, number: u32) {
            self.done
                .push(&self.chunks[number as usize].slot, ChunkIndex::new(number));
        }

        /// A recording thread's switch: leaves one chunk, takes another if one is ready, and writes
        /// `count` entries from `first` on into it.
        fn switch(&self, from: ChunkIndex, first: u64, count: usize) -> Option<ChunkIndex> {
            self.chunks[from.get() as usize].slot.finish(Timestamp::MAX);
            self.push(from.get());
            let to = self.ready.take(0)?;
            self.chunks[to.get() as usize].open(first);
            self.chunks[to.get() as usize].write(first, count);
            Some(to)
        }

        /// The manager's step: closes the done chunks and makes them ready again.
        fn recycle(&self) {
            for index in self.done.take_all(self) {
                self.slot(index).unwrap().close();
                self.ready.offer(0, index).unwrap();
            }
        }
    }

    #[test]
    fn loom_chunks_pushed_by_two_threads_are_each_taken_once() {
        loom::model(|| {
            let shared = ModelledStack::new();
            let pushers: Vec<_> = (0..2)
                .map(|number| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || shared.push(number))
                })
                .collect();
            let mut taken = shared.done.take_all(&*shared);
            pushers
                .into_iter()
                .for_each(|pusher| pusher.join().unwrap());
            taken.extend(shared.done.take_all(&*shared));
            taken.sort_unstable();
            assert_eq!(taken, [ChunkIndex::new(0), ChunkIndex::new(1)]);
        });
    }

    #[test]
    fn loom_a_chunk_pushed_again_while_the_stack_is_emptied_is_not_lost() {
        loom::model(|| {
            let shared = ModelledStack::new();
            shared.push(0);
            let pusher = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.push(1);
                    let taken = shared.done.take_all(&*shared);
                    taken.iter().for_each(|index| shared.push(index.get()));
                })
            };
            let mut taken = shared.done.take_all(&*shared);
            pusher.join().unwrap();
            taken.extend(shared.done.take_all(&*shared));
            taken.sort_unstable();
            assert_eq!(taken, [ChunkIndex::new(0), ChunkIndex::new(1)]);
        });
    }

    #[test]
    fn loom_a_reader_sees_whole_entries_of_one_owner_while_chunks_are_recycled() {
        loom::model(|| {
            let shared = ModelledStack::new();
            shared.ready.offer(0, ChunkIndex::new(1)).unwrap();
            shared.chunks[0].open(10);
            shared.chunks[0].write(10, 1);
            let writer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let second = shared.switch(ChunkIndex::new(0), 20, 1).unwrap();
                    shared.switch(second, 30, 1);
                })
            };
            let manager = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.recycle())
            };
            let reader = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.chunks[0].check_copy())
            };
            writer.join().unwrap();
            manager.join().unwrap();
            reader.join().unwrap();
            shared.chunks.iter().for_each(Chunk::check_copy);
        });
    }

    #[test]
    fn loom_a_recycled_chunk_shows_no_entries_of_its_previous_thread() {
        loom::model(|| {
            let shared = ModelledStack::new();
            shared.chunks[0].open(10);
            shared.chunks[0].write(10, 2);
            shared.chunks[0].slot.finish(Timestamp::MAX);
            shared.push(0);
            let other = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.recycle();
                    if let Some(taken) = shared.ready.take(0) {
                        shared.chunks[taken.get() as usize].open(90);
                        shared.chunks[taken.get() as usize].write(90, 1);
                    }
                })
            };
            shared.chunks[0].check_copy();
            other.join().unwrap();
            assert_eq!(shared.chunks[0].copy(), Some((90, vec![90])));
        });
    }
}
