//! Finds the recorded span of a number that an inner subscriber has made.
//!
//! Spans that only the profiler wants need no table (`span_id`). A span that the inner subscriber
//! wants too keeps that subscriber's number, so that its own extensions find it, and the recorded
//! span is looked up here. Lock-free; the places are in two neighbouring buckets of the number's
//! hash. If they are full, the span is not recorded, which the caller counts.
//!
//! ```text
//! owner, insert   key 0 → number (compare and swap) · value (release)
//! holder, find    key == number? · value (acquire)
//! owner, remove   value 0 · key 0 (release)
//! ```
//!
//! Invariants: a number has at most one place, because the inner subscriber uses it for one span at
//! a time. Whoever holds a span's number has received it after the insertion. A number that is not
//! held any more may find another span, which is harmless: it ends up in a link between spans.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::span_id::RecordedSpan;

const BUCKET_BITS: u32 = 12;
const BUCKETS: usize = 1 << BUCKET_BITS;
const PLACES: usize = 8;

/// Recorded spans by the numbers of an inner subscriber.
#[derive(Debug)]
pub(crate) struct SpanMap {
    buckets: [Bucket; BUCKETS],
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
            buckets: [const { Bucket::new() }; BUCKETS],
            used: AtomicU64::new(0),
        }
    }

    /// Adds a span. False if there is no place for it.
    pub(crate) fn insert(&self, key: u64, span: RecordedSpan) -> bool {
        let claimed = self.places(key).find(|(place, _)| {
            place.load(Ordering::Relaxed) == 0
                && place
                    .compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
        });
        let Some((_, value)) = claimed else {
            return false;
        };
        value.store(span.word(), Ordering::Release);
        self.used.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Finds a span.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> Option<RecordedSpan> {
        if self.used.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (_, value) = self.place_of(key)?;
        RecordedSpan::from_word(value.load(Ordering::Acquire))
    }

    /// Removes a span, and returns it.
    pub(crate) fn remove(&self, key: u64) -> Option<RecordedSpan> {
        if self.used.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (place, value) = self.place_of(key)?;
        let span = RecordedSpan::from_word(value.swap(0, Ordering::AcqRel));
        place.store(0, Ordering::Release);
        self.used.fetch_sub(1, Ordering::Relaxed);
        span
    }

    fn place_of(&self, key: u64) -> Option<(&AtomicU64, &AtomicU64)> {
        self.places(key)
            .find(|(place, _)| place.load(Ordering::Acquire) == key)
    }

    fn places(&self, key: u64) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BUCKET_BITS);
        let first = usize::try_from(hash).unwrap_or(0);
        let buckets = [first, first ^ 1].into_iter();
        buckets
            .filter_map(|bucket| self.buckets.get(bucket))
            .flat_map(Bucket::places)
    }
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
                    prop_assert_eq!(map.remove(key), model.remove(&key));
                }
                prop_assert_eq!(map.find(key), model.get(&key).copied());
            }
        }
    }

    #[test]
    fn a_span_without_a_place_is_refused_and_not_found() {
        let map = boxed();
        let refused = (1..100_000).find(|key| !map.insert(*key, RecordedSpan::new(1, *key)));
        let refused = refused.expect("the map is full");
        assert_eq!(map.find(refused), None);
        assert_eq!(map.find(1), Some(RecordedSpan::new(1, 1)));
    }
}
