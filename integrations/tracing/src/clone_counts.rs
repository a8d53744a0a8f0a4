//! Counts the handles of spans that were cloned and that no inner subscriber counts.
//!
//! Most spans are never cloned. A span has a place here only while it has more than one handle, so
//! a span that is not cloned costs one load at its end. Lock-free.
//!
//! ```text
//! word   number of the span (upper 48 bits) · handles besides the first (lower 16 bits); 0 = free
//! ```
//!
//! Number and count are in one word, so a place that another span has taken over cannot be mistaken
//! for one's own. A span may have several places; its handles are those of all of them. If a bucket
//! is full, further tables are made. Invariants: a word without handles is 0; the words of a span
//! are only in the buckets of its number.
//!
//! If no further table may be made, the clone is not counted. The span is then marked: it never
//! ends, because its last handle is not known. The caller counts the end as lost. Spans that have
//! the same number modulo [`MARKS`] share a mark, and never end, either.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::growing::Growing;

const BUCKETS: usize = 2048;
const PLACES: usize = 8;
const COUNT_BITS: u32 = 16;
const MAX_IN_WORD: u64 = (1 << COUNT_BITS) - 1;
/// Most further tables, of 128 KiB each: together there are places for half a million spans.
const MAX_FURTHER: usize = 31;
/// The number of marks.
const MARKS: usize = 1 << 16;
const MARK_WORDS: usize = MARKS / 64;

/// Handles of cloned spans.
#[derive(Debug)]
pub(crate) struct CloneCounts {
    tables: Growing<[Bucket; BUCKETS], MAX_FURTHER>,
    /// Places in use, and clones that were not counted.
    used: AtomicU64,
    /// Spans with a clone that was not counted.
    marks: [AtomicU64; MARK_WORDS],
}

#[derive(Debug)]
#[repr(align(64))]
struct Bucket([AtomicU64; PLACES]);

impl Bucket {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; PLACES])
    }
}

impl CloneCounts {
    pub(crate) const fn new() -> Self {
        Self {
            tables: Growing::new([const { Bucket::new() }; BUCKETS]),
            used: AtomicU64::new(0),
            marks: [const { AtomicU64::new(0) }; MARK_WORDS],
        }
    }

    /// Adds a handle of the span with this number. False if there is no place for it.
    pub(crate) fn add(&self, number: u64) -> bool {
        let more =
            |word: u64| (is_of(word, number) && word & MAX_IN_WORD < MAX_IN_WORD).then(|| word + 1);
        if self.update(number, more).is_some() {
            return true;
        }
        self.used.fetch_add(1, Ordering::Relaxed);
        let claim = |word: u64| (word == 0).then_some((number << COUNT_BITS) | 1);
        let look = |table| change_first(table, number, claim);
        let is_claimed = self.tables.find_or_grow(look, new_table).is_some();
        if !is_claimed {
            self.mark(number);
        }
        is_claimed
    }

    /// Removes a handle of the span with this number. True if it was the last one.
    #[inline]
    pub(crate) fn remove(&self, number: u64) -> bool {
        // The thread that has cloned this span is this one, or has passed the handle on to it.
        self.used.load(Ordering::Relaxed) == 0 || self.remove_counted(number)
    }

    #[inline(never)]
    fn remove_counted(&self, number: u64) -> bool {
        let fewer = |word: u64| {
            is_of(word, number).then(|| if word & MAX_IN_WORD == 1 { 0 } else { word - 1 })
        };
        let before = self.update(number, fewer);
        if before.is_some_and(|word| word & MAX_IN_WORD == 1) {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
        before.is_none() && !self.is_marked(number)
    }

    /// Changes the first word of the number's buckets that `change` accepts; returns the word
    /// before.
    fn update(&self, number: u64, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        self.tables
            .find(|table| change_first(table, number, &change))
    }

    fn mark(&self, number: u64) {
        if let Some((word, bit)) = self.mark_of(number) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn is_marked(&self, number: u64) -> bool {
        self.mark_of(number)
            .is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn mark_of(&self, number: u64) -> Option<(&AtomicU64, u64)> {
        let index = usize::try_from(number % MARKS as u64).ok()?;
        Some((self.marks.get(index / 64)?, 1 << (index % 64)))
    }
}

/// A further table, made in place: it is larger than some stacks.
fn new_table() -> Option<Box<[Bucket; BUCKETS]>> {
    let buckets: Box<[Bucket]> = (0..BUCKETS).map(|_| Bucket::new()).collect();
    buckets.try_into().ok()
}

/// Changes the first word of the number's bucket that `change` accepts; returns the word before.
fn change_first(
    table: &[Bucket; BUCKETS],
    number: u64,
    change: impl Fn(u64) -> Option<u64>,
) -> Option<u64> {
    table.get(bucket_of(number))?.0.iter().find_map(|place| {
        place
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, &change)
            .ok()
    })
}

/// Fibonacci hashing: numbers at regular distances are in different buckets, too.
fn bucket_of(number: u64) -> usize {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BUCKETS.ilog2());
    usize::try_from(hash).unwrap_or(0)
}

/// Whether a word belongs to the span with this number.
const fn is_of(word: u64, number: u64) -> bool {
    word != 0 && word >> COUNT_BITS == number
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// The numbers of one bucket.
    fn of_one_bucket() -> impl Iterator<Item = u64> {
        (1..).filter(|number| bucket_of(*number) == 0)
    }

    fn boxed() -> &'static CloneCounts {
        Box::leak(Box::new(CloneCounts::new()))
    }

    proptest! {
        #[test]
        fn the_last_handle_is_the_one_after_which_none_is_left(
            steps in prop::collection::vec((0_u64..6, any::<bool>()), 0..200)
        ) {
            let counts = boxed();
            let numbers: Vec<u64> = of_one_bucket().take(6).collect();
            let mut handles = [1_u32; 6];
            for (span, is_clone) in steps {
                // Spans of one bucket.
                let number = numbers[usize::try_from(span).unwrap()];
                let left = &mut handles[usize::try_from(span).unwrap()];
                if *left == 0 {
                    continue;
                }
                if is_clone {
                    prop_assert!(counts.add(number));
                    *left += 1;
                } else {
                    *left -= 1;
                    prop_assert_eq!(counts.remove(number), *left == 0);
                }
            }
        }
    }

    #[test]
    fn handles_that_are_dropped_on_several_threads_have_one_last() {
        let counts = boxed();
        for round in 1..200 {
            (0..3).for_each(|_| assert!(counts.add(round)));
            let together = Barrier::new(4);
            let drop = || {
                together.wait();
                counts.remove(round)
            };
            let last = thread::scope(|scope| {
                let drops = [(); 4].map(|()| thread::Builder::new().spawn_scoped(scope, drop));
                let results = drops.map(|drop| drop.unwrap().join().unwrap());
                results.into_iter().filter(|is_last| *is_last).count()
            });
            assert_eq!(last, 1);
        }
        assert_eq!(counts.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_bucket_is_followed_by_a_further_one() {
        let counts = boxed();
        let numbers = || of_one_bucket().take(10 * PLACES);
        assert!(numbers().all(|number| counts.add(number)));
        assert!(numbers().all(|number| !counts.remove(number)), "a clone");
        assert!(numbers().all(|number| counts.remove(number)), "the last");
        assert_eq!(counts.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_span_whose_clone_is_not_counted_never_ends() {
        let counts = boxed();
        let refused = of_one_bucket().find(|number| !counts.add(*number));
        let refused = refused.expect("the tables are full");
        assert!([(); 3].iter().all(|()| !counts.remove(refused)));
        let other = of_one_bucket().nth(1).expect("it was counted");
        assert!(!counts.remove(other) && counts.remove(other), "it ends");
    }
}
