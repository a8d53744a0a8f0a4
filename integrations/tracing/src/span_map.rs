//! Finds the recorded span of a number that an inner subscriber has made.
//!
//! Spans that only the profiler wants need no table (`span_id`). A span that the inner subscriber
//! wants too keeps that subscriber's number, so that its own extensions find it, and the recorded
//! span is looked up here. Lock-free; the places are in two neighbouring buckets of the number's
//! hash. If they are full, further tables are made. If no further table may be made, the span is
//! not recorded, which the caller counts.
//!
//! ```text
//! owner, insert   key 0 → number (compare and swap) · value (release)
//! holder, find    key == number? · value (acquire)
//! owner, remove   value 0 · key 0 (release)
//! ```
//!
//! Invariants: a thread that holds a span's number has received it after the insertion. An inner
//! subscriber may use a number again as soon as its span is closed, so two spans may have a place
//! under one number for a moment; a removal names the span, too. A number that is not held any more
//! may find another span, which is harmless: it ends up in a link between spans.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::growing::Growing;
use crate::span_id::RecordedSpan;

const BUCKET_BITS: u32 = 12;
const BUCKETS: usize = 1 << BUCKET_BITS;
const PLACES: usize = 8;
/// Most further tables, of 512 KiB each: together there are places for two million spans.
const MAX_FURTHER: usize = 63;

/// Recorded spans by the numbers of an inner subscriber.
#[derive(Debug)]
pub(crate) struct SpanMap {
    tables: Growing<[Bucket; BUCKETS], MAX_FURTHER>,
    /// Places in use.
    used: AtomicU64,
}

#[derive(Debug)]
#[repr(align(64))]
struct Bucket {
    keys: [AtomicU64; PLACES],
    values: [AtomicU64; PLACES],
}

impl Bucket {
    const fn new() -> Self {
        Self {
            keys: [const { AtomicU64::new(0) }; PLACES],
            values: [const { AtomicU64::new(0) }; PLACES],
        }
    }

    fn places(&self) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        self.keys.iter().zip(&self.values)
    }
}

impl SpanMap {
    pub(crate) const fn new() -> Self {
        Self {
            tables: Growing::new([const { Bucket::new() }; BUCKETS]),
            used: AtomicU64::new(0),
        }
    }

    /// Adds a span. False if there is no place for it.
    pub(crate) fn insert(&self, key: u64, span: RecordedSpan) -> bool {
        let claim = |(place, value): (&AtomicU64, &AtomicU64)| {
            let claimed = place.compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed);
            claimed
                .is_ok()
                .then(|| value.store(span.word(), Ordering::Release))
        };
        let look = |table| places(table, key).filter(is_free).find_map(claim);
        let is_added = self.tables.find_or_grow(look, new_table).is_some();
        if is_added {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
        is_added
    }

    /// Finds a span.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<RecordedSpan> {
        if self.used.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let value_of = |(place, value): (&AtomicU64, &AtomicU64)| {
            let is_its = place.load(Ordering::Acquire) == key;
            // A place that is being freed or claimed has no word.
            let word = is_its.then(|| value.load(Ordering::Acquire));
            word.and_then(RecordedSpan::from_word)
        };
        let look = |table| places(table, key).find_map(value_of);
        self.tables.find(look)
    }

    /// Removes this span. True if it was there.
    pub(crate) fn remove(&self, key: u64, span: RecordedSpan) -> bool {
        let take = |(place, value): (&AtomicU64, &AtomicU64)| {
            let is_its = place.load(Ordering::Acquire) == key;
            let word = span.word();
            let taken = || value.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
            if !is_its || taken().is_err() {
                return None;
            }
            place.store(0, Ordering::Release);
            self.used.fetch_sub(1, Ordering::Relaxed);
            Some(())
        };
        let look = |table| places(table, key).find_map(take);
        self.tables.find(look).is_some()
    }
}

/// A further table, made in place: it is larger than some stacks.
fn new_table() -> Option<Box<[Bucket; BUCKETS]>> {
    let buckets: Box<[Bucket]> = (0..BUCKETS).map(|_| Bucket::new()).collect();
    buckets.try_into().ok()
}

fn is_free((place, _): &(&AtomicU64, &AtomicU64)) -> bool {
    place.load(Ordering::Relaxed) == 0
}

/// The places for a number in one table.
fn places(table: &[Bucket; BUCKETS], key: u64) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BUCKET_BITS);
    let first = usize::try_from(hash).unwrap_or(0);
    let buckets = [first, first ^ 1].into_iter();
    buckets
        .filter_map(|bucket| table.get(bucket))
        .flat_map(Bucket::places)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn boxed() -> &'static SpanMap {
        Box::leak(Box::new(SpanMap::new()))
    }

    proptest! {
        #[test]
        fn the_map_is_like_any_other_map(steps in prop::collection::vec((1_u64..40, any::<bool>()), 0..300)) {
            let map = boxed();
            let mut model = HashMap::new();
            for (number, (key, is_insert)) in (1..).zip(steps) {
                let span = RecordedSpan::new(1, number);
                if is_insert && !model.contains_key(&key) {
                    prop_assert!(map.insert(key, span));
                    model.insert(key, span);
                } else {
                    let known = model.remove(&key);
                    let removed = known.is_some_and(|known| map.remove(key, known));
                    prop_assert_eq!(removed, known.is_some());
                }
                prop_assert_eq!(map.find(key), model.get(&key).copied());
            }
        }
    }

    #[test]
    fn a_full_table_is_followed_by_a_further_one() {
        let map = boxed();
        let span = |key| RecordedSpan::new(1, key);
        assert!((1..100_000).all(|key| map.insert(key, span(key))));
        assert!((1..100_000).all(|key| map.find(key) == Some(span(key))));
        assert!((1..100_000).all(|key| map.remove(key, span(key))));
        assert_eq!(map.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_removal_leaves_another_span_of_the_same_number() {
        let map = boxed();
        let [first, second] = [1, 2].map(|number| RecordedSpan::new(1, number));
        assert!(map.insert(7, first) && map.insert(7, second));
        assert!(map.remove(7, first) && !map.remove(7, first));
        assert_eq!(map.find(7), Some(second));
    }

    #[test]
    fn a_span_without_a_place_is_refused() {
        let map = boxed();
        let span = RecordedSpan::new(1, 1);
        let places = 2 * PLACES * (MAX_FURTHER + 1);
        assert!((0..places).all(|_| map.insert(1, span)));
        assert!(!map.insert(1, span));
    }
}
