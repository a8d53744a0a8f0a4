//! The table of live sampled allocations, so that only their frees are recorded.
//!
//! Checked at every free while allocations are sampled. A fixed-size, lock-free table: each address
//! has one bucket of eight places that share a cache line, so a free reads one line, and removal
//! leaves no tombstone. An allocation whose bucket is full is not sampled, but counted as dropped:
//! 2 % of the samples with 32,768 addresses in the table.
//!
//! ```text
//! place   address, 0 = free · bytes that the sample stands for (low 48), session (high 16)
//! ```
//!
//! Invariants: an address is inserted before its owner gets it, and removed before the allocator
//! may reuse it. So no other thread searches for it meanwhile, and it is in the table at most once.
//! Entries of an earlier session are recognised by its number.

use crate::sync::fixed::{AtomicU64, Ordering};

const PLACES: usize = 8;
const BYTES_MASK: u64 = (1 << 48) - 1;

/// A bucket of eight places.
#[derive(Debug)]
#[repr(C, align(128))]
struct Bucket {
    addresses: [AtomicU64; PLACES],
    samples: [AtomicU64; PLACES],
}

/// A table of `N` buckets.
#[derive(Debug)]
pub(super) struct LiveSamples<const N: usize> {
    buckets: [Bucket; N],
}

impl<const N: usize> LiveSamples<N> {
    /// An empty table. All zeros: a static takes no memory until it is used.
    pub(super) const fn new() -> Self {
        let buckets = [const {
            let zeros = [const { AtomicU64::new(0) }; PLACES];
            Bucket {
                addresses: zeros,
                samples: [const { AtomicU64::new(0) }; PLACES],
            }
        }; N];
        Self { buckets }
    }

    /// Inserts a sampled allocation; false if its bucket is full.
    pub(super) fn put(&self, address: u64, bytes: u64, session: u64) -> bool {
        let sample = bytes.min(BYTES_MASK) | (session << 48);
        self.places(address).any(|(place, kept)| {
            let is_free = place.load(Ordering::Relaxed) == 0;
            let taken = is_free
                && place
                    .compare_exchange(0, address, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok();
            if taken {
                kept.store(sample, Ordering::Relaxed);
            }
            taken
        })
    }

    /// Removes an allocation; returns the bytes it stands for, if it was sampled in this session.
    #[inline]
    pub(super) fn take(&self, address: u64, session: u64) -> Option<u64> {
        let (place, kept) = self
            .places(address)
            .find(|(place, _)| place.load(Ordering::Relaxed) == address)?;
        let sample = kept.load(Ordering::Relaxed);
        // Release: the place may be reused only after its sample was read.
        place.store(0, Ordering::Release);
        (sample >> 48 == session & 0xffff).then_some(sample & BYTES_MASK)
    }

    /// Removes all entries.
    pub(super) fn clear(&self) {
        self.buckets
            .iter()
            .flat_map(|bucket| &bucket.addresses)
            .for_each(|place| {
                if place.load(Ordering::Relaxed) != 0 {
                    place.store(0, Ordering::Release);
                }
            });
    }

    #[inline]
    fn places(&self, address: u64) -> impl Iterator<Item = (&AtomicU64, &AtomicU64)> {
        // The low bits are zero by alignment; the product's high bits depend on all bits.
        let hash = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = usize::try_from(hash).unwrap_or(0) % N.max(1);
        let bucket = self.buckets.get(index);
        bucket
            .into_iter()
            .flat_map(|bucket| bucket.addresses.iter().zip(&bucket.samples))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: u64 = 3;

    #[test]
    fn an_inserted_address_is_removed_once() {
        let live = LiveSamples::<4>::new();
        assert!(live.put(0x1000, 64, SESSION));
        assert_eq!(live.take(0x2000, SESSION), None);
        assert_eq!(live.take(0x1000, SESSION), Some(64));
        assert_eq!(live.take(0x1000, SESSION), None);
    }

    #[test]
    fn a_full_bucket_rejects_inserts_until_a_removal() {
        let live = LiveSamples::<1>::new();
        for number in 1..=8 {
            assert!(live.put(number << 4, number, SESSION));
        }
        assert!(!live.put(0x90, 9, SESSION));
        assert_eq!(live.take(0x30, SESSION), Some(3));
        assert!(live.put(0x90, 9, SESSION));
        assert_eq!(live.take(0x90, SESSION), Some(9));
    }

    #[test]
    fn entries_of_an_earlier_session_are_ignored() {
        let live = LiveSamples::<1>::new();
        assert!(live.put(0x10, 64, SESSION));
        assert_eq!(live.take(0x10, SESSION + 1), None);
        assert!(live.put(0x10, 65, SESSION + 1));
        live.clear();
        assert_eq!(live.take(0x10, SESSION + 1), None);
    }

    #[test]
    fn addresses_of_one_size_class_spread_over_the_buckets() {
        for stride in [16_u64, 64, 4096, 65_536] {
            let live = LiveSamples::<1024>::new();
            let kept = (1..=2048)
                .filter(|number| live.put(0x7f00_0000_0000 + number * stride, 1, 0))
                .count();
            assert!(kept > 2000, "stride {stride}: {kept} of 2048");
        }
    }
}
