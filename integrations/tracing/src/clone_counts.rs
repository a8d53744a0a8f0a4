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
//! for one's own. A span may have several places; its handles are those of all of them. Invariants:
//! a word without handles is 0; the words of a span are only in the bucket of its number. If a
//! bucket is full, the clone is not counted here, and the caller counts a loss: the span then ends
//! with the handle that is dropped first.

use std::sync::atomic::{AtomicU64, Ordering};

const BUCKETS: u64 = 1024;
const PLACES: usize = 8;
const COUNT_BITS: u32 = 16;
const MOST_IN_WORD: u64 = (1 << COUNT_BITS) - 1;

/// Handles of cloned spans.
#[derive(Debug)]
pub(crate) struct CloneCounts {
    buckets: [Bucket; BUCKETS as usize],
    /// Places in use.
    used: AtomicU64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Bucket([AtomicU64; PLACES]);

impl CloneCounts {
    pub(crate) const fn new() -> Self {
        Self {
            buckets: [const { Bucket([const { AtomicU64::new(0) }; PLACES]) }; BUCKETS as usize],
            used: AtomicU64::new(0),
        }
    }

    /// Adds a handle of the span with this number. False if there is no place for it.
    pub(crate) fn add(&self, number: u64) -> bool {
        let more = |word: u64| {
            (is_of(word, number) && word & MOST_IN_WORD < MOST_IN_WORD).then(|| word + 1)
        };
        if self.update(number, more).is_some() {
            return true;
        }
        let claim = |word: u64| (word == 0).then_some((number << COUNT_BITS) | 1);
        let is_claimed = self.update(number, claim).is_some();
        if is_claimed {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
        is_claimed
    }

    /// Removes a handle of the span with this number. True if it was the last one.
    #[inline]
    pub(crate) fn remove(&self, number: u64) -> bool {
        // Whoever has cloned this span has passed the handle on to this thread, or is this thread.
        self.used.load(Ordering::Relaxed) == 0 || self.remove_counted(number)
    }

    #[inline(never)]
    fn remove_counted(&self, number: u64) -> bool {
        let fewer = |word: u64| {
            is_of(word, number).then(|| {
                if word & MOST_IN_WORD == 1 {
                    0
                } else {
                    word - 1
                }
            })
        };
        let before = self.update(number, fewer);
        if before.is_some_and(|word| word & MOST_IN_WORD == 1) {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
        before.is_none()
    }

    /// Changes the first word of the bucket that `change` accepts; returns the word before.
    fn update(&self, number: u64, change: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let bucket = usize::try_from(number % BUCKETS).ok()?;
        let places = &self.buckets.get(bucket)?.0;
        places.iter().find_map(|place| {
            place
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, &change)
                .ok()
        })
    }
}

/// Whether a word belongs to the span with this number.
const fn is_of(word: u64, number: u64) -> bool {
    word != 0 && word >> COUNT_BITS == number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn boxed() -> &'static CloneCounts {
        Box::leak(Box::new(CloneCounts::new()))
    }

    proptest! {
        #[test]
        fn the_last_handle_is_the_one_after_which_none_is_left(
            steps in prop::collection::vec((0_u64..6, any::<bool>()), 0..200)
        ) {
            let counts = boxed();
            let mut handles = [1_u32; 6];
            for (span, is_clone) in steps {
                // Spans that share buckets.
                let number = span * BUCKETS / 2 + 1;
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
            let drops: Vec<_> = (0..4)
                .map(|_| {
                    let drop = move || counts.remove(round);
                    std::thread::Builder::new().spawn(drop).unwrap()
                })
                .collect();
            let last = drops.into_iter().filter(|_| true);
            assert_eq!(
                last.filter_map(|drop| drop.join().ok())
                    .filter(|is_last| *is_last)
                    .count(),
                1
            );
        }
        assert_eq!(counts.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_bucket_refuses_further_spans() {
        let counts = boxed();
        let accepted = (0..20).filter(|at| counts.add(at * BUCKETS)).count();
        assert_eq!(accepted, PLACES);
        assert!(counts.remove(19 * BUCKETS), "it was not counted");
    }
}
