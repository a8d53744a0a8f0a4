//! Allocation of thread rows: lock-free, because recording threads call it.
//!
//! A thread takes its row when it first records in a session and ends the row when it ends, in both
//! cases without a lock. Rows are freed only through [`super::rows`], under the manager's lock,
//! once the last chunk of an ended thread is gone. Lowest rows first, so that a reader may stop at
//! the first page that was never touched; pages are charged as they are reached.
//!
//! The bits are only hints. The row itself records its owner (`pool::live::row`), and every step
//! there is a compare-and-swap: a thread that was delayed while one session stopped and another
//! began either still owns its old row or takes a free one.

use crate::ids::{ThreadId, ThreadIndex};
use crate::pool::Pool;
use crate::pool::budget::ChargedPages;
use crate::pool::layout::{MAX_THREADS, Region, THREAD_BYTES};
use crate::pool::live::{NewThread, Occupant, RowUse, ThreadRow};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

const WORDS: usize = (MAX_THREADS / 64) as usize;

/// Access to rows by number, and charging of their pages. A trait, so that loom can check this.
pub(crate) trait RowTable {
    /// The row with this number, if there is one.
    fn thread_row(&self, index: ThreadIndex) -> Option<&ThreadRow>;
    /// Charges the table's pages up to `end`. False if there is no room for them.
    fn cover(&self, charged: &ChargedPages, end: u64) -> bool;
}

impl RowTable for Pool {
    fn thread_row(&self, index: ThreadIndex) -> Option<&ThreadRow> {
        Self::thread_row(self, index)
    }

    fn cover(&self, charged: &ChargedPages, end: u64) -> bool {
        charged.cover(
            self.map(),
            self.budget(),
            self.layout().region(Region::Threads),
            end,
        )
    }
}

/// The rows of a pool's threads.
#[derive(Debug)]
pub(crate) struct ThreadRows {
    /// One bit per row: taken.
    taken: Box<[AtomicU64]>,
    /// One bit per row: its thread has ended since the last call of `take_ended`.
    ended: Box<[AtomicU64]>,
    /// All rows that were ever taken are below this.
    frontier: AtomicU64,
    charged: ChargedPages,
    /// Number of rows kept for threads that the sampler found and that have not recorded yet.
    found: AtomicU64,
    /// Grows whenever a thread gets a row.
    changes: AtomicU64,
}

impl ThreadRows {
    pub(crate) fn new(page: u64) -> Self {
        Self::with_words(WORDS, page)
    }

    /// A table of 64 rows per word.
    pub(crate) fn with_words(words: usize, page: u64) -> Self {
        let bits = || (0..words).map(|_| AtomicU64::new(0)).collect();
        Self {
            taken: bits(),
            ended: bits(),
            frontier: AtomicU64::new(0),
            charged: ChargedPages::new(page),
            found: AtomicU64::new(0),
            changes: AtomicU64::new(0),
        }
    }

    /// Takes the lowest free row for a thread; returns it and its present use. `None` if no row or
    /// no page for one is left, or if the session ended meanwhile.
    pub(crate) fn add(
        &self,
        table: &impl RowTable,
        thread: NewThread<'_>,
    ) -> Option<(ThreadIndex, RowUse)> {
        self.set_up(table, |row, own| row.register(own, thread))
    }

    /// Takes the lowest free row for a future thread, which takes it with `ThreadRow::take_kept`.
    pub(crate) fn keep(&self, table: &impl RowTable, thread: NewThread<'_>) -> Option<ThreadIndex> {
        self.set_up(table, |row, own| row.keep(own, thread))
            .map(|(row, _)| row)
    }

    /// Keeps a row for a thread that has recorded nothing, and may never record.
    pub(crate) fn keep_found(
        &self,
        table: &impl RowTable,
        thread: NewThread<'_>,
    ) -> Option<ThreadIndex> {
        let row = self.keep(table, thread)?;
        self.found.fetch_add(1, Ordering::AcqRel);
        Some(row)
    }

    /// Takes the row that was kept for a found thread. Reads all rows if any is kept.
    pub(crate) fn take_found(
        &self,
        table: &impl RowTable,
        tid: ThreadId,
    ) -> Option<(ThreadIndex, RowUse)> {
        if self.found.load(Ordering::Acquire) == 0 {
            return None;
        }
        let (index, found) = self
            .alive(table)
            .find(|(_, found)| found.tid == tid && found.is_kept)?;
        self.take_row(table, index, found.own)
            .map(|own| (index, own))
    }

    /// Takes the row that was seen to be kept for a found thread, unless it belongs to another one
    /// now.
    pub(crate) fn take_row(
        &self,
        table: &impl RowTable,
        index: ThreadIndex,
        seen: RowUse,
    ) -> Option<RowUse> {
        let own = table.thread_row(index)?.take_kept_by(seen)?;
        self.found.fetch_sub(1, Ordering::AcqRel);
        self.changes.fetch_add(1, Ordering::AcqRel);
        Some(own)
    }

    /// All rows of live threads, and their owners.
    pub(crate) fn alive<'a>(
        &'a self,
        table: &'a impl RowTable,
    ) -> impl Iterator<Item = (ThreadIndex, Occupant)> + 'a {
        let frontier = u32::try_from(self.frontier()).unwrap_or(u32::MAX);
        (1..frontier)
            .map(ThreadIndex::new)
            .filter_map(move |index| Some((index, table.thread_row(index)?.thread()?)))
    }

    /// A number that changes whenever a thread gets a row.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Claims a row and lets `step` assign it. `None` if that fails because the session ended
    /// meanwhile; then the row is free again.
    fn set_up(
        &self,
        table: &impl RowTable,
        step: impl FnOnce(&ThreadRow, RowUse) -> bool,
    ) -> Option<(ThreadIndex, RowUse)> {
        let (index, own) = self.claim(table)?;
        let is_ours = step(table.thread_row(index)?, own);
        if !is_ours {
            self.put(index);
        }
        self.changes.fetch_add(1, Ordering::AcqRel);
        is_ours.then_some((index, own))
    }

    fn claim(&self, table: &impl RowTable) -> Option<(ThreadIndex, RowUse)> {
        loop {
            let number = self.take()?;
            let index = u32::try_from(number).ok().map(ThreadIndex::new)?;
            let end = number.saturating_add(1);
            if !table.cover(&self.charged, end.saturating_mul(THREAD_BYTES)) {
                self.put(index);
                return None;
            }
            self.frontier.fetch_max(end, Ordering::AcqRel);
            if let Some(own) = table.thread_row(index)?.claim() {
                return Some((index, own));
            }
            // The row's thread still has it; its bit was lost between two sessions and is set again
            // now.
        }
    }

    fn take(&self) -> Option<u64> {
        (0_u64..).zip(&self.taken).find_map(|(word, bits)| {
            let free = |seen: u64| (seen != u64::MAX).then(|| seen | (seen + 1));
            let before = bits
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, free)
                .ok()?;
            Some(word * 64 + u64::from(before.trailing_ones()))
        })
    }

    /// Frees a row that is no longer referred to.
    pub(crate) fn put(&self, index: ThreadIndex) {
        if let Some((bits, bit)) = place(&self.taken, index) {
            bits.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Releases the row of a thread that is ending and has handed its chunk over.
    pub(crate) fn end(
        &self,
        table: &impl RowTable,
        index: ThreadIndex,
        own: RowUse,
        at: Timestamp,
    ) {
        let Some(row) = table.thread_row(index) else {
            return;
        };
        if !row.end(own, at) {
            return self.put(index); // its session is over: its counts are not used
        }
        if let Some((bits, bit)) = place(&self.ended, index) {
            bits.fetch_or(bit, Ordering::Release);
        }
    }

    /// Makes a row that its thread took by `ThreadRow::take_kept` a kept row again.
    pub(crate) fn step_back(&self, table: &impl RowTable, index: ThreadIndex, own: RowUse) {
        if table
            .thread_row(index)
            .is_some_and(|row| !row.step_back(own))
        {
            self.put(index);
        }
    }

    /// Takes the rows whose threads have ended since the last call. The chunks that those threads
    /// handed over before are visible to a caller that collects done chunks after this call.
    pub(crate) fn take_ended(&self, table: &impl RowTable) -> Vec<ThreadIndex> {
        let words = usize::try_from(self.frontier().div_ceil(64)).unwrap_or(WORDS);
        let mut ended = Vec::new();
        for (word, bits) in (0_u32..).zip(self.ended.iter().take(words)) {
            if bits.load(Ordering::Relaxed) != 0 {
                let bits = bits.swap(0, Ordering::AcqRel);
                let set = (0..64).filter(|bit| bits & (1 << bit) != 0);
                ended.extend(set.map(|bit| ThreadIndex::new(word * 64 + bit)));
            }
        }
        // A thread of an earlier session may have been delayed before it set its bit. The row then
        // belongs to another thread, which reports its end itself.
        ended.retain(|index| table.thread_row(*index).is_some_and(ThreadRow::has_ended));
        ended
    }

    fn frontier(&self) -> u64 {
        self.frontier.load(Ordering::Acquire)
    }

    /// Called when a session begins: frees all rows except those that their threads have not
    /// released.
    pub(crate) fn clear(&self, table: &impl RowTable) {
        let frontier = self.frontier();
        // Reads no row beyond the frontier: reading a page that was never touched allocates it.
        let row = |number: u32| {
            table
                .thread_row(ThreadIndex::new(number))
                .filter(|_| u64::from(number) < frontier)
        };
        let stays = |number: u32| row(number).is_some_and(ThreadRow::leave_behind);
        let words = usize::try_from(frontier.div_ceil(64)).unwrap_or(WORDS);
        for (first, bits) in (0_u32..).step_by(64).zip(self.taken.iter().take(words)) {
            let staying = (0..64).filter(|bit| stays(first.saturating_add(*bit)));
            // Bits are only cleared, never set, because a thread may release its row concurrently.
            bits.fetch_and(
                staying.fold(0, |kept, bit| kept | (1 << bit)),
                Ordering::AcqRel,
            );
        }
        self.ended
            .iter()
            .for_each(|bits| bits.store(0, Ordering::Release));
        self.found.store(0, Ordering::Release);
    }
}

fn place(bits: &[AtomicU64], index: ThreadIndex) -> Option<(&AtomicU64, u64)> {
    let word = bits.get(usize::try_from(index.get() / 64).ok()?)?;
    Some((word, 1 << (index.get() % 64)))
}
