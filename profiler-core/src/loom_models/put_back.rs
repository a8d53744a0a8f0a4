//! Models of an unused chunk that its thread puts back: either the chunk is made ready for another
//! thread, or it stays with its thread unchanged.

use loom::sync::Arc;
use loom::thread;

use crate::ids::ChunkIndex;
use crate::manager::full_chunks::Slots;
use crate::manager::ready::{READY_PLACES, ReadyChunks};
use crate::pool::layout::Layout;
use crate::pool::slot::ChunkSlot;
use crate::pool::slot::model::Chunk;
use crate::record::recorder::put_back;

struct ModelledPool {
    chunk: Chunk,
    ready: ReadyChunks,
    layout: Layout,
}

const CHUNK: ChunkIndex = ChunkIndex::new(0);

impl Slots for ModelledPool {
    fn slot(&self, index: ChunkIndex) -> Option<&ChunkSlot> {
        (index == CHUNK).then_some(&self.chunk.slot)
    }
}

impl ModelledPool {
    fn new() -> Arc<Self> {
        let shared = Self {
            chunk: Chunk::new(),
            ready: ReadyChunks::new(),
            layout: Layout::for_limit(4096, 4096),
        };
        shared.chunk.open(10);
        Arc::new(shared)
    }

    fn put_back(&self) -> bool {
        put_back(self, &self.ready, &self.layout, CHUNK)
    }
}

#[test]
fn loom_a_chunk_put_back_belongs_to_its_next_thread_only() {
    loom::model(|| {
        let shared = ModelledPool::new();
        let first = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.put_back())
        };
        let second = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let taken = shared.ready.take(0);
                if taken.is_some() {
                    shared.chunk.open(90);
                    shared.chunk.write(90, 1);
                }
                taken
            })
        };
        shared.chunk.check_copy();
        assert!(first.join().unwrap());
        let expected = second.join().unwrap().map(|_| (90, vec![90]));
        assert_eq!(
            shared.chunk.copy(),
            expected,
            "the chunk is open exactly for the second thread"
        );
    });
}

#[test]
fn loom_a_chunk_without_a_free_place_stays_with_its_thread() {
    loom::model(|| {
        let shared = ModelledPool::new();
        (1..=READY_PLACES).for_each(|other| {
            shared
                .ready
                .offer(0, ChunkIndex::new(u32::try_from(other).unwrap()))
                .unwrap();
        });
        let reader = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.chunk.check_copy())
        };
        assert!(!shared.put_back());
        shared.chunk.write(10, 1);
        reader.join().unwrap();
        assert_eq!(shared.chunk.copy(), Some((10, vec![10])));
    });
}
