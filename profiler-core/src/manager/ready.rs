//! Ready chunks: a writer that switches takes its next chunk from here, without a lock.
//!
//! Filled by the maintenance thread, emptied by recording threads. A few places per size class,
//! each an atomic that holds a slot number or nothing; taking is one swap. Ready chunks have no
//! order, so there is no queue and no ABA problem.
//!
//! The number of ready chunks follows the demand: it doubles each time the class is requested
//! again, and halves each time it is not. So a thread that records continuously soon has a stock
//! that lasts while the maintenance thread gets no processor, and an idle thread costs little.

use crate::ids::ChunkIndex;
use crate::pool::layout::SIZE_CLASSES;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Places per size class: 16 chunks of the largest class last 10 ms at the rate of markers without
/// payload.
pub(crate) const READY_PLACES: usize = 16;
/// Minimum stock of chunks of the smallest class, so that a new thread finds one.
const MINIMUM_STOCK: usize = 2;
const EMPTY: u32 = u32::MAX;

#[derive(Debug)]
struct Class {
    places: [AtomicU32; READY_PLACES],
    /// How often a chunk of this class was requested, ready or not.
    demand: AtomicU64,
    /// How many chunks should be ready. Touched only by the maintenance thread's passes.
    target: AtomicU64,
    /// Whether the class was requested since this was last read. Touched by the same passes.
    lately: AtomicU32,
}

/// The desired stock of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// How many chunks should be ready.
    pub(crate) target: usize,
    /// Whether the class was requested lately, so that older data may be destroyed for it.
    pub(crate) in_demand: bool,
}

/// The ready chunks of a process.
#[derive(Debug)]
pub(crate) struct ReadyChunks {
    classes: Vec<Class>,
}

impl ReadyChunks {
    pub(crate) fn new() -> Self {
        let class = |_| Class {
            places: std::array::from_fn(|_| AtomicU32::new(EMPTY)),
            demand: AtomicU64::new(0),
            target: AtomicU64::new(0),
            lately: AtomicU32::new(0),
        };
        Self {
            classes: (0..SIZE_CLASSES).map(class).collect(),
        }
    }

    /// Notes that a chunk of this class was requested.
    pub(crate) fn wish(&self, class: u8) {
        if let Some(class) = self.classes.get(usize::from(class)) {
            class.demand.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes a ready chunk of this class, if there is one. At most 16 loads and one swap.
    pub(crate) fn take(&self, class: u8) -> Option<ChunkIndex> {
        self.classes
            .get(usize::from(class))?
            .places
            .iter()
            .find_map(take_place)
    }

    /// Offers a ready chunk; returns it if all places are taken.
    pub(crate) fn offer(&self, class: u8, chunk: ChunkIndex) -> Result<(), ChunkIndex> {
        let places = self
            .classes
            .get(usize::from(class))
            .map_or(&[][..], |class| &class.places);
        let is_free = |place: &&AtomicU32| {
            place
                .compare_exchange(EMPTY, chunk.get(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        places.iter().find(is_free).map(|_| ()).ok_or(chunk)
    }

    /// How many chunks of this class are ready.
    pub(crate) fn count(&self, class: u8) -> usize {
        let taken = |place: &&AtomicU32| place.load(Ordering::Relaxed) != EMPTY;
        self.classes
            .get(usize::from(class))
            .map_or(0, |class| class.places.iter().filter(taken).count())
    }

    /// The desired stock of this class, from the requests since the last call. Called by one thread
    /// at a time.
    pub(crate) fn plan(&self, class: u8) -> Plan {
        let minimum = if class == 0 { MINIMUM_STOCK } else { 0 };
        let Some(class) = self.classes.get(usize::from(class)) else {
            return Plan {
                target: 0,
                in_demand: false,
            };
        };
        let demand =
            usize::try_from(class.demand.swap(0, Ordering::Relaxed)).unwrap_or(READY_PLACES);
        let before = usize::try_from(class.target.load(Ordering::Relaxed)).unwrap_or(0);
        let target = match demand {
            0 => before / 2,
            _ => before.max(demand).saturating_mul(2).min(READY_PLACES),
        };
        class.target.store(target as u64, Ordering::Relaxed);
        class
            .lately
            .fetch_or(u32::from(demand > 0), Ordering::Relaxed);
        Plan {
            target: target.max(minimum),
            in_demand: demand > 0,
        }
    }

    /// Whether this class has more than its minimum stock and was not requested since the last
    /// call. A class that was not requested gets no chunks until its next request. Called by the
    /// thread that plans.
    pub(crate) fn is_left_over(&self, number: u8) -> bool {
        let minimum = if number == 0 { MINIMUM_STOCK } else { 0 };
        let Some(class) = self.classes.get(usize::from(number)) else {
            return false;
        };
        let wished = class.lately.swap(0, Ordering::Relaxed) != 0
            || class.demand.load(Ordering::Relaxed) > 0;
        if !wished {
            class.target.store(0, Ordering::Relaxed);
        }
        !wished && self.count(number) > minimum
    }

    /// Takes every ready chunk of this class without counting a demand.
    pub(crate) fn drain(&self, class: u8) -> Vec<ChunkIndex> {
        let places = self
            .classes
            .get(usize::from(class))
            .map_or(&[][..], |class| &class.places);
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
    fn an_offered_chunk_is_taken_once() {
        let ready = ReadyChunks::new();
        for index in 0..16 {
            ready.offer(2, ChunkIndex::new(index)).unwrap();
        }
        assert_eq!(
            ready.offer(2, ChunkIndex::new(99)),
            Err(ChunkIndex::new(99))
        );
        let mut taken: Vec<u32> = std::iter::from_fn(|| ready.take(2))
            .map(ChunkIndex::get)
            .collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..16).collect::<Vec<_>>());
        assert_eq!(ready.take(3), None);
        assert_eq!(ready.take(200), None);
    }

    #[test]
    fn a_stock_without_requests_between_two_checks_is_left_over() {
        let ready = ReadyChunks::new();
        ready.wish(3);
        let target = ready.plan(3).target;
        (0..target as u32).for_each(|index| ready.offer(3, ChunkIndex::new(index)).unwrap());
        assert!(
            !ready.is_left_over(3),
            "it was requested before the first check"
        );
        assert!(ready.is_left_over(3));
        assert_eq!(ready.drain(3).len(), target);
        assert!(!ready.is_left_over(3) && ready.plan(3).target == 0);
    }

    #[test]
    fn the_stock_follows_the_demand() {
        let ready = ReadyChunks::new();
        let targets = |passes: usize, wished: bool| -> Vec<usize> {
            let pass = |_| {
                (0..u8::from(wished)).for_each(|_| ready.wish(3));
                ready.plan(3).target
            };
            (0..passes).map(pass).collect()
        };
        assert_eq!(targets(5, true), [2, 4, 8, 16, 16]);
        assert_eq!(targets(6, false), [8, 4, 2, 1, 0, 0]);
        assert_eq!((ready.plan(0).target, ready.plan(200).target), (2, 0));
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
            let mut taken: Vec<_> = takers
                .into_iter()
                .filter_map(|t| t.join().unwrap())
                .collect();
            taken.extend(ready.take(0));
            assert_eq!(taken, [ChunkIndex::new(5)]);
        });
    }
}
