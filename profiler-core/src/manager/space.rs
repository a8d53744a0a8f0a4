//! Address allocation in the chunk region: a buddy allocator over whole pages.
//!
//! Called with the manager's lock held, never on a recording thread's fast path. It hands out
//! addresses only; the budget decides whether there may be memory behind them. The pool has
//! addresses for the whole limit, so a page is always found while the budget lasts. A larger block
//! may not be found; the caller then takes a smaller one. Lowest addresses come first, so that a
//! small pool stays dense. See Knowlton, "A fast storage allocator", 1965.

use std::collections::BTreeSet;

use crate::pool::layout::SIZE_CLASSES;

/// Free blocks of the chunk region, in pages from its start.
#[derive(Debug)]
pub(crate) struct ChunkSpace {
    /// Free blocks by class; a block of class `c` is `1 << c` pages, aligned to its size.
    free: Vec<BTreeSet<u64>>,
    /// First page that was never part of a block; always a multiple of the largest block.
    frontier: u64,
    /// Pages of the region that are whole largest blocks.
    frontier_end: u64,
}

const LARGEST: u8 = SIZE_CLASSES - 1;

impl ChunkSpace {
    pub(crate) fn new(pages: u64) -> Self {
        let mut free: Vec<BTreeSet<u64>> = (0..SIZE_CLASSES).map(|_| BTreeSet::new()).collect();
        let frontier_end = pages >> LARGEST << LARGEST;
        let mut at = frontier_end;
        // Splits the remainder at the end into blocks of falling size, which keeps them aligned.
        for class in (0..LARGEST).rev() {
            if pages - at >= 1 << class {
                if let Some(set) = free.get_mut(usize::from(class)) {
                    set.insert(at);
                }
                at += 1 << class;
            }
        }
        Self {
            free,
            frontier: 0,
            frontier_end,
        }
    }

    /// A block of this class, as its first page.
    pub(crate) fn take(&mut self, class: u8) -> Option<u64> {
        if let Some(block) = self.free.get_mut(usize::from(class))?.pop_first() {
            return Some(block);
        }
        if class == LARGEST {
            return self.extend();
        }
        let block = self.take(class + 1)?;
        self.free
            .get_mut(usize::from(class))?
            .insert(block + (1 << class));
        Some(block)
    }

    fn extend(&mut self) -> Option<u64> {
        if self.frontier >= self.frontier_end {
            return None;
        }
        let block = self.frontier;
        self.frontier += 1 << LARGEST;
        Some(block)
    }

    /// Puts a block back and joins it with its buddy while that is free too.
    pub(crate) fn put(&mut self, block: u64, class: u8) {
        let buddy = block ^ (1 << class);
        let Some(set) = self.free.get_mut(usize::from(class)) else {
            return;
        };
        if class < LARGEST && set.remove(&buddy) {
            self.put(block.min(buddy), class + 1);
        } else {
            set.insert(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_pages_can_be_taken_for_every_region_size() {
        for pages in [1, 2, 3, 255, 256, 257, 1000, 1024] {
            let mut space = ChunkSpace::new(pages);
            let mut taken = BTreeSet::new();
            while let Some(page) = space.take(0) {
                assert!(page < pages && taken.insert(page));
            }
            assert_eq!(taken.len() as u64, pages);
        }
    }

    proptest! {
        #[test]
        fn blocks_never_overlap_and_all_space_comes_back(
            pages in 1_u64..2000,
            steps in prop::collection::vec((0_u8..SIZE_CLASSES, any::<prop::sample::Index>(), any::<bool>()), 1..200),
        ) {
            let mut space = ChunkSpace::new(pages);
            let mut held: Vec<(u64, u8)> = Vec::new();
            for (class, index, put) in steps {
                if put && !held.is_empty() {
                    let (block, class) = held.swap_remove(index.index(held.len()));
                    space.put(block, class);
                } else if let Some(block) = space.take(class) {
                    let end = block + (1 << class);
                    prop_assert!(end <= pages);
                    prop_assert!(held.iter().all(|(b, c)| *b >= end || b + (1 << c) <= block));
                    held.push((block, class));
                }
            }
            for (block, class) in held {
                space.put(block, class);
            }
            let mut count = 0;
            while space.take(0).is_some() {
                count += 1;
            }
            prop_assert_eq!(count, pages);
        }
    }
}
