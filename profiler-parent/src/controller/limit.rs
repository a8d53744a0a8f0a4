//! The memory limit in force, and the bytes that are charged, published for all threads of the
//! session.
//!
//! Written by the supervisor after each event that the controller handles. Read by the session, by
//! spawning, by the live page and by the metrics. Invariant: the largest limit never changes,
//! because every pool reserves its addresses for that limit when it is created.

use std::sync::atomic::{AtomicU64, Ordering};

use profiler_core::ids::ByteLimit;

/// The limit on the bytes that all processes together may hold.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    now: AtomicU64,
    over: AtomicU64,
    charged: AtomicU64,
    peak: AtomicU64,
    most: ByteLimit,
}

impl MemoryLimit {
    /// A limit of `first` bytes, which may be raised up to `most`.
    pub(crate) fn new(first: ByteLimit, most: ByteLimit) -> Self {
        Self {
            now: AtomicU64::new(first.get()),
            over: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            most: most.max(first),
        }
    }

    /// The limit in force.
    pub(crate) fn now(&self) -> ByteLimit {
        ByteLimit::new(self.now.load(Ordering::Acquire))
    }

    /// The largest limit, for which pools have addresses.
    pub(crate) const fn most(&self) -> ByteLimit {
        self.most
    }

    /// The bytes that are charged beyond the limit.
    pub(crate) fn over(&self) -> u64 {
        self.over.load(Ordering::Acquire)
    }

    /// The bytes that are charged: the most that all processes may hold now.
    pub(crate) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Acquire)
    }

    /// The most bytes that were charged at any time.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Acquire)
    }

    /// Publishes the limit and the charged bytes.
    pub(crate) fn publish(&self, now: ByteLimit, charged: u64) {
        self.now.store(now.get(), Ordering::Release);
        self.over
            .store(charged.saturating_sub(now.get()), Ordering::Release);
        self.charged.store(charged, Ordering::Release);
        self.peak.fetch_max(charged, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_the_most_that_was_charged() {
        let limit = MemoryLimit::new(ByteLimit::new(100), ByteLimit::new(0));
        for (now, charged, over, peak) in [(100, 60, 0, 60), (50, 60, 10, 60), (50, 20, 0, 60)] {
            limit.publish(ByteLimit::new(now), charged);
            assert_eq!(
                (limit.charged(), limit.over(), limit.peak()),
                (charged, over, peak)
            );
        }
    }
}
