//! Which thread rows are taken: lock-free, because recording threads come and go here.
//!
//! A thread takes its row when it first records in a session and ends it when it ends, in both
//! cases without a lock. Rows go back only through [`super::rows`], under the manager's lock,
//! once the last chunk of an ended thread is gone. Lowest rows first, so that a reader may stop
//! at the first page that was never touched; pages are booked as they are reached.
//!
//! A use of a row is told from later ones by the row's use count: what a thread that slept
//! through a stop and a start says about its old row changes nothing.

use crate::ids::ThreadIndex;
use crate::manager::rows::NewThread;
use crate::pool::Pool;
use crate::pool::budget::BookedPages;
use crate::pool::layout::{MAX_THREADS, Region, THREAD_BYTES};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

const WORDS: usize = (MAX_THREADS / 64) as usize;

/// The rows of a pool's threads.
#[derive(Debug)]
pub(crate) struct ThreadRows {
    /// One bit per row: taken.
    taken: Box<[AtomicU64]>,
    /// One bit per row: its thread has ended since the last look.
    ended: Box<[AtomicU64]>,
    /// Rows that were ever taken, all below this.
    frontier: AtomicU64,
    booked: BookedPages,
}

impl ThreadRows {
    pub(crate) fn new(page: u64) -> Self {
        let bits = || (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Self { taken: bits(), ended: bits(), frontier: AtomicU64::new(0), booked: BookedPages::new(page) }
    }

    /// Takes the lowest free row for a thread; gives it and the use of it that this is.
    pub(crate) fn add(&self, pool: &Pool, thread: NewThread<'_>) -> Option<(ThreadIndex, u64)> {
        let number = self.take()?;
        let end = number.saturating_add(1).saturating_mul(THREAD_BYTES);
        let index = u32::try_from(number).ok().map(ThreadIndex::new)?;
        let table = pool.layout().region(Region::Threads);
        if !self.booked.cover(pool.map(), pool.budget(), table, end) {
            self.put(index);
            return None;
        }
        self.frontier.fetch_max(number.saturating_add(1), Ordering::AcqRel);
        let own_use = pool.thread_row(index)?.register(thread.tid, thread.at, thread.is_main, thread.name);
        Some((index, own_use))
    }

    fn take(&self) -> Option<u64> {
        (0_u64..).zip(&self.taken).find_map(|(word, bits)| {
            let free = |seen: u64| (seen != u64::MAX).then(|| seen | (seen + 1));
            let before = bits.fetch_update(Ordering::AcqRel, Ordering::Relaxed, free).ok()?;
            Some(word * 64 + u64::from(before.trailing_ones()))
        })
    }

    /// Frees a row that nobody refers to any more.
    pub(crate) fn put(&self, index: ThreadIndex) {
        if let Some((bits, bit)) = place(&self.taken, index) {
            bits.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Notes that the thread of this use of a row has ended, after it handed its chunk over.
    pub(crate) fn end(&self, pool: &Pool, index: ThreadIndex, own_use: u64, at: Timestamp) {
        let ended = pool.thread_row(index).is_some_and(|row| row.end(own_use, at));
        if let (true, Some((bits, bit))) = (ended, place(&self.ended, index)) {
            bits.fetch_or(bit, Ordering::Release);
        }
    }

    /// Rows whose threads have ended since the last call. What those threads handed over before
    /// is visible to whoever collects done chunks after this call.
    pub(crate) fn take_ended(&self) -> Vec<ThreadIndex> {
        let frontier = self.frontier();
        let words = usize::try_from(frontier.div_ceil(64)).unwrap_or(WORDS);
        let mut ended = Vec::new();
        for (word, bits) in (0_u32..).zip(self.ended.iter().take(words)) {
            if bits.load(Ordering::Relaxed) != 0 {
                let bits = bits.swap(0, Ordering::AcqRel);
                let set = (0..64).filter(|bit| bits & (1 << bit) != 0);
                ended.extend(set.map(|bit| ThreadIndex::new(word * 64 + bit)));
            }
        }
        ended
    }

    fn frontier(&self) -> u64 {
        self.frontier.load(Ordering::Acquire)
    }

    /// Frees all rows; a session begins. No thread is set up for one now.
    pub(crate) fn clear(&self, pool: &Pool) {
        let numbers = 0..u32::try_from(self.frontier()).unwrap_or(0);
        numbers.filter_map(|number| pool.thread_row(ThreadIndex::new(number))).for_each(|row| row.free());
        self.ended.iter().chain(&self.taken).for_each(|bits| bits.store(0, Ordering::Release));
    }
}

fn place(bits: &[AtomicU64], index: ThreadIndex) -> Option<(&AtomicU64, u64)> {
    let word = bits.get(usize::try_from(index.get() / 64).ok()?)?;
    Some((word, 1 << (index.get() % 64)))
}
