//! A pool for tests, with chunks of samples as a sampler writes them. Used by the tests that read
//! pools. All chunks are of the recorder in row 1 of the thread table.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::pool::layout::{Layout, Region, SLOT_BYTES, THREAD_BYTES};
use profiler_core::internal::pool::{self, PoolSpec};
use profiler_core::internal::reader::PoolReader;
use profiler_core::session::SessionParams;
use profiler_sys::OwnFile;

use crate::sample_bytes::TestSample;

/// Bytes that each chunk may hold.
const CHUNK: u64 = 1 << 18;
const MAX_CHUNKS: u64 = 16;

/// A pool of which the last chunk is being filled.
pub(crate) struct TestPool {
    pub(crate) id: PoolId,
    pub(crate) file: Arc<OwnFile>,
    layout: Layout,
    entries: u64,
}

impl TestPool {
    /// A pool with these chunks, in the order of their times.
    pub(crate) fn of(chunks: &[Vec<TestSample>]) -> Self {
        let limit = ByteLimit::new(CHUNK * MAX_CHUNKS);
        let id = pool::new_id().unwrap();
        let spec = PoolSpec {
            id,
            limit,
            allowance: limit,
            ..PoolSpec::starting_now(SessionParams::default()).unwrap()
        };
        let file = OwnFile::from(spec.create_pool().unwrap());
        let layout = PoolReader::open(&file).unwrap().header().layout;
        let mut pool = Self {
            id,
            file: Arc::new(file),
            layout,
            entries: 0,
        };
        for row in [0, 1] {
            let at = layout.region(Region::Threads).offset + row * THREAD_BYTES;
            pool.put(at, &[row + 1, 1]);
            pool.put(at + 15 * 8, &[1]); // the row is in use
        }
        for (slot, chunk) in (0..MAX_CHUNKS).zip(chunks) {
            let is_left = slot + 1 < chunks.len() as u64;
            pool.put_chunk(slot, chunk, is_left);
        }
        pool
    }

    fn put_chunk(&mut self, slot: u64, samples: &[TestSample], is_left: bool) {
        let bytes: Vec<u8> = samples.iter().flat_map(TestSample::bytes).collect();
        let offset = self.layout.region(Region::Chunks).offset + slot * CHUNK;
        let len = bytes.len() as u64;
        assert!(len <= CHUNK, "{len}");
        self.file
            .get()
            .unwrap()
            .write_all_at(&bytes, offset)
            .unwrap();
        let entries = samples.len() as u64;
        let (first, last) = (samples.first().unwrap().at, samples.last().unwrap().at);
        let slot_at = self.layout.region(Region::Directory).offset + slot * SLOT_BYTES;
        let thread = 1 << 32;
        let done = if is_left { last } else { 0 };
        let has_foreign = 1;
        let commit = len | entries << 32;
        let fields = [1, offset, CHUNK | thread, first, done, self.entries];
        self.put(slot_at, &fields);
        self.put(slot_at + 6 * 8, &[has_foreign, 0, commit, entries]);
        self.entries += entries;
    }

    fn put(&self, at: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.file.get().unwrap().write_all_at(&bytes, at).unwrap();
    }
}
