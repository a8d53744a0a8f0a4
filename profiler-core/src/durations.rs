//! Duration statistics: Gecko's ten buckets, and a finer histogram of bounded size.
//!
//! Used by the group cells (`pool::live::group`), which count, and by `reader::groups`, which reads
//! the counts. Invariants: a bucket counts runs of strictly more than its bound, in whole
//! microseconds; a run is in exactly one place of the histogram; both have a fixed number of
//! places.
//!
//! ```text
//! bucket i        runs of more than 2^i ms, i = 0…9: 1, 2, 4, … 512 ms. Cumulative.
//! histogram       four places per octave from 1 µs: [1, 1.25) [1.25, 1.5) [1.5, 1.75) [1.75, 2) …
//!                 the first includes all shorter runs, the last (from 12.6 s) all longer ones
//! ```

/// Number of buckets.
pub const BUCKETS: usize = 10;
/// Number of places of the histogram.
pub(crate) const PLACES: usize = 95;

/// A quarter of a microsecond, the width of the finest places.
const QUARTER_NS: u64 = 250;

/// The bound of a bucket in microseconds: the bucket counts longer runs.
pub const fn bucket_bound_us(bucket: u32) -> u64 {
    1000_u64.saturating_mul(1 << (if bucket < 50 { bucket } else { 50 }))
}

/// The number of buckets, from the first, that count a run of this many nanoseconds.
pub(crate) fn buckets_of(ns: u64) -> usize {
    let us = ns / 1000;
    (0..)
        .zip(0..BUCKETS)
        .take_while(|(bucket, _)| us > bucket_bound_us(*bucket))
        .count()
}

/// The place in the histogram of a run of this many nanoseconds.
pub(crate) fn place_of(ns: u64) -> usize {
    let quarters = ns / QUARTER_NS;
    let Some(octave) = quarters.checked_ilog2().and_then(|log| log.checked_sub(2)) else {
        return 0;
    };
    let within = (quarters >> octave) & 3;
    let place = u64::from(octave).saturating_mul(4).saturating_add(within);
    usize::try_from(place).map_or(PLACES - 1, |place| place.min(PLACES - 1))
}

/// The shortest run, in nanoseconds, in a place of the histogram; 0 for the first.
pub(crate) fn place_from_ns(place: usize) -> u64 {
    let place = place.min(PLACES - 1) as u64;
    if place == 0 {
        0
    } else {
        (4 + place % 4) << (place / 4)
    }
    .saturating_mul(QUARTER_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_bucket_counts_runs_longer_than_its_bound_in_whole_microseconds() {
        assert_eq!(buckets_of(0), 0);
        assert_eq!(
            buckets_of(1_000_000),
            0,
            "exactly a millisecond is not more than one"
        );
        assert_eq!(
            buckets_of(1_000_999),
            0,
            "still a millisecond in whole microseconds"
        );
        assert_eq!(buckets_of(1_001_000), 1);
        assert_eq!(buckets_of(512_000_000), 9);
        assert_eq!(buckets_of(512_001_000), 10);
        assert_eq!(buckets_of(u64::MAX), 10);
    }

    #[test]
    fn p9_every_run_has_one_place_and_places_follow_each_other() {
        assert!((0..PLACES - 1).all(|place| place_from_ns(place) < place_from_ns(place + 1)));
        for place in 1..PLACES {
            let from = place_from_ns(place);
            assert_eq!((place_of(from), place_of(from - 1)), (place, place - 1));
        }
        assert_eq!(
            place_from_ns(4),
            2_000,
            "an octave begins at each power of two of a microsecond"
        );
        assert_eq!((place_of(0), place_of(u64::MAX)), (0, PLACES - 1));
    }
}
