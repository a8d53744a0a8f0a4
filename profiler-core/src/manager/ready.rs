//! Chunks made ready: what a writer's switch takes from, without a lock.
//!
//! Filled by the maintenance thread, emptied by recording threads. A few places per size
//! class, each an atomic that holds a slot number or nothing; taking is one swap. There is no
//! order among ready chunks, so there is nothing to queue and no ABA to fear.

use crate::ids::ChunkIndex;
use crate::pool::layout::SIZE_CLASSES;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Places per size class.
pub(crate) const READY_PLACES: usize = 8;
const EMPTY: u32 = u32::MAX;

#[derive(Debug)]
struct Class {
    places: [AtomicU32; READY_PLACES],
    /// How often a chunk of this class was asked for, ready or not.
    demand: AtomicU64,
}

/// The ready chunks of a process.
#[derive(Debug)]
pub(crate) struct ReadyChunks {
    classes: Vec<Class>,
}

impl ReadyChunks {
    pub(crate) fn new() -> Self {
        let class =
            |_| Class { places: std::array::from_fn(|_| AtomicU32::new(EMPTY)), demand: AtomicU64::new(0) };
        Self { classes: (0..SIZE_CLASSES).map(class).collect() }
    }

    /// Takes a ready chunk of this class, if there is one. At most 8 loads and one swap.
    pub(crate) fn take(&self, class: u8) -> Option<ChunkIndex> {
        let class = self.classes.get(usize::from(class))?;
        class.demand.fetch_add(1, Ordering::Relaxed);
        class.places.iter().find_map(take_place)
    }

    /// Offers a ready chunk; gives it back when all places are taken.
    pub(crate) fn offer(&self, class: u8, chunk: ChunkIndex) -> Result<(), ChunkIndex> {
        let places = self.classes.get(usize::from(class)).map_or(&[][..], |class| &class.places);
        let is_free = |place: &&AtomicU32| {
            place.compare_exchange(EMPTY, chunk.get(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        places.iter().find(is_free).map(|_| ()).ok_or(chunk)
    }

    /// How many chunks of this class are ready.
    pub(crate) fn count(&self, class: u8) -> usize {
        let taken = |place: &&AtomicU32| place.load(Ordering::Relaxed) != EMPTY;
        self.classes.get(usize::from(class)).map_or(0, |class| class.places.iter().filter(taken).count())
    }

    /// How often this class was asked for since the last call.
    pub(crate) fn take_demand(&self, class: u8) -> u64 {
        self.classes.get(usize::from(class)).map_or(0, |class| class.demand.swap(0, Ordering::Relaxed))
    }

    /// Takes every ready chunk of this class without counting a demand.
    pub(crate) fn drain(&self, class: u8) -> Vec<ChunkIndex> {
        let places = self.classes.get(usize::from(class)).map_or(&[][..], |class| &class.places);
        places.iter().filter_map(take_place).collect()
    }
}

fn take_place(place: &AtomicU32) -> Option<ChunkIndex> {
    if place.load(Ordering::Relaxed) == EMPTY {
        return None;
    }
    let taken = place.swap(EMPTY, Ordering::AcqRel);
    (taken != EMPTY).then(|| ChunkIndex::new(taken))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_is_taken_once() {
        let ready = ReadyChunks::new();
        for index in 0..8 {
            ready.offer(2, ChunkIndex::new(index)).unwrap();
        }
        assert_eq!(ready.offer(2, ChunkIndex::new(9)), Err(ChunkIndex::new(9)));
        let mut taken: Vec<u32> = std::iter::from_fn(|| ready.take(2)).map(ChunkIndex::get).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..8).collect::<Vec<_>>());
        assert_eq!(ready.take_demand(2), 9);
        assert_eq!(ready.take(3), None);
        assert_eq!(ready.take(200), None);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn loom_a_ready_chunk_goes_to_exactly_one_thread() {
        loom::model(|| {
            let ready = Arc::new(ReadyChunks::new());
            let takers: Vec<_> = (0..2)
                .map(|_| {
                    let ready = Arc::clone(&ready);
                    thread::spawn(move || ready.take(0))
                })
                .collect();
            ready.offer(0, ChunkIndex::new(5)).unwrap();
            let mut taken: Vec<_> = takers.into_iter().filter_map(|t| t.join().unwrap()).collect();
            taken.extend(ready.take(0));
            assert_eq!(taken, [ChunkIndex::new(5)]);
        });
    }
}
