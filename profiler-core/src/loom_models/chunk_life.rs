//! Models of a chunk's life: made ready, taken, filled, handed over, closed, ready again.

use loom::sync::Arc;
use loom::thread;

use crate::ids::ChunkIndex;
use crate::manager::full_chunks::{FullChunks, Slots};
use crate::manager::ready::ReadyChunks;
use crate::pool::slot::ChunkSlot;
use crate::pool::slot::model::Chunk;
use crate::time::Timestamp;

const CHUNK: ChunkIndex = ChunkIndex::new(0);
const PLACE: (u64, u64) = (12_288, 4096);

struct ModelledPool {
    chunk: Chunk,
    ready: ReadyChunks,
    done: FullChunks,
}

impl Slots for ModelledPool {
    fn slot(&self, index: ChunkIndex) -> Option<&ChunkSlot> {
        (index == CHUNK).then_some(&self.chunk.slot)
    }
}

impl ModelledPool {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            chunk: Chunk::new(),
            ready: ReadyChunks::new(),
            done: FullChunks::new(),
        })
    }

    /// The maintenance thread's step: makes a new chunk ready.
    fn make_ready(&self) {
        self.chunk.slot.describe(PLACE.0, 4096);
        self.ready.offer(0, CHUNK).unwrap();
    }

    /// A recording thread's step: takes a chunk if one is ready, writes an entry into it, and hands
    /// it over.
    fn fill(&self, first: u64) -> bool {
        let taken = self.ready.take(0).is_some();
        if taken {
            assert_eq!(
                (self.chunk.slot.offset(), self.chunk.slot.bytes()),
                PLACE,
                "not as described"
            );
            self.chunk.open(first);
            self.chunk.write(first, 1);
            self.chunk.slot.finish(Timestamp::MAX);
            self.done.push(&self.chunk.slot, CHUNK);
        }
        taken
    }

    /// The manager's step: closes done chunks and makes them ready again. Returns the number of
    /// evicted entries.
    fn recycle(&self) -> u64 {
        let mut evicted = 0;
        for index in self.done.take_all(self) {
            let slot = self.slot(index).unwrap();
            evicted += slot.committed().entries();
            slot.close();
            self.ready.offer(0, index).unwrap();
        }
        evicted
    }
}

#[test]
fn loom_a_chunk_made_ready_is_seen_as_it_was_described() {
    loom::model(|| {
        let shared = ModelledPool::new();
        let maker = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.make_ready())
        };
        let filled = shared.fill(10);
        maker.join().unwrap();
        assert_eq!(shared.chunk.copy(), filled.then(|| (10, vec![10])));
    });
}

#[test]
fn loom_recycling_a_chunk_handed_over_counts_all_its_entries() {
    loom::model(|| {
        let shared = ModelledPool::new();
        shared.make_ready();
        let first = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || assert!(shared.fill(10)))
        };
        let evicted = shared.recycle();
        let filled_again = evicted > 0 && shared.fill(90);
        shared.chunk.check_copy();
        first.join().unwrap();
        let expected = if filled_again {
            (90, vec![90])
        } else {
            (10, vec![10])
        };
        assert_eq!(shared.chunk.copy(), Some(expected), "evicted {evicted}");
    });
}
