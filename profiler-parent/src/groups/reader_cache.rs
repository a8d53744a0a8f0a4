//! A cache of readers of the groups in pools, kept between snapshots.
//!
//! Used by [`super::snapshot_reader`]. A reader keeps its pool open. Invariant: the cache keeps no
//! pool open that the session has given up, and none after the session's end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use profiler_core::ids::PoolId;
use profiler_core::internal::reader::groups::GroupReader;
use profiler_sys::OwnFile;

/// A reader of the groups in one pool.
pub(super) type PoolGroupReader = GroupReader<Arc<OwnFile>>;

#[derive(Debug, Default)]
struct CachedReaders {
    all: HashMap<PoolId, PoolGroupReader>,
    is_over: bool,
}

/// A cache of readers. See the head of this file.
#[derive(Debug, Default)]
pub(super) struct ReaderCache(Mutex<CachedReaders>);

impl ReaderCache {
    fn lock(&self) -> MutexGuard<'_, CachedReaders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes out the reader of a pool; [`Self::keep`] returns it. `None` if the pool has no reader
    /// or another thread has it.
    pub(super) fn take(&self, key: PoolId) -> Option<PoolGroupReader> {
        self.lock().all.remove(&key)
    }

    /// Keeps a reader for the next snapshot, unless the session is over.
    pub(super) fn keep(&self, key: PoolId, reader: PoolGroupReader) {
        let mut readers = self.lock();
        if !readers.is_over {
            readers.all.insert(key, reader);
        }
    }

    /// Drops the reader of a pool that is no longer needed.
    pub(super) fn forget(&self, key: PoolId) {
        let reader = self.lock().all.remove(&key);
        drop(reader); // after the unlock: closing a pool frees it
    }

    /// Keeps only the readers of these pools.
    pub(super) fn keep_only(&self, mut is_there: impl FnMut(PoolId) -> bool) {
        self.lock().all.retain(|key, _| is_there(*key));
    }

    /// Drops all readers at the end of the session.
    pub(super) fn close(&self) {
        let mut readers = self.lock();
        readers.is_over = true;
        readers.all.clear();
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::ids::ByteLimit;
    use profiler_core::internal::pool::PoolSpec;
    use profiler_core::session::SessionParams;

    use super::*;

    /// A reader of a new pool, and another reference to that pool.
    fn reader() -> (PoolGroupReader, Arc<OwnFile>) {
        let limit = ByteLimit::new(1 << 20);
        let spec = PoolSpec {
            limit,
            allowance: limit,
            ..PoolSpec::starting_now(SessionParams::default()).unwrap()
        };
        let file = Arc::new(spec.create_pool().unwrap().into());
        (PoolGroupReader::open(Arc::clone(&file)).unwrap(), file)
    }

    #[test]
    fn p12_the_cache_drops_the_readers_of_pools_that_are_not_needed() {
        let cache = ReaderCache::default();
        let key = PoolId::new(1);
        let (kept, file) = reader();
        cache.keep(key, kept);
        cache.forget(key);
        assert_eq!(Arc::strong_count(&file), 1, "a forgotten pool is closed");
        let (kept, file) = reader();
        cache.keep(key, kept);
        let late = cache.take(key).unwrap();
        cache.close();
        cache.keep(key, late);
        assert_eq!(
            Arc::strong_count(&file),
            1,
            "a reader that comes back after the session's end is dropped"
        );
    }
}
