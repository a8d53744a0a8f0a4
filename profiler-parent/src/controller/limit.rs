//! The memory limit in force, published for all threads of the session.
//!
//! Written by the supervisor after each event that the controller handles. Read by the session, by
//! spawning and by the live page. Invariant: the largest limit never changes, because every pool
//! reserves its addresses for that limit when it is created.

use std::sync::atomic::{AtomicU64, Ordering};

use profiler_core::ids::ByteLimit;

/// The limit on the bytes that all processes together may hold.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    now: AtomicU64,
    over: AtomicU64,
    most: ByteLimit,
}

impl MemoryLimit {
    /// A limit of `first` bytes, which may be raised up to `most`.
    pub(crate) fn new(first: ByteLimit, most: ByteLimit) -> Self {
        Self {
            now: AtomicU64::new(first.get()),
            over: AtomicU64::new(0),
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

    /// Publishes the limit and the bytes that are charged beyond it.
    pub(crate) fn publish(&self, now: ByteLimit, over: u64) {
        self.now.store(now.get(), Ordering::Release);
        self.over.store(over, Ordering::Release);
    }
}
