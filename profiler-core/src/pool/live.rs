//! The small live tables: thread rows, counter cells, paused ranges.
//!
//! Written by the process (rows by their thread and by whoever destroys its chunks, cells by
//! any thread), read through the file at any time without asking the process.
//!
//! ```text
//! thread row  word 0   system thread number
//!                  1   registered at          2  unregistered at, 0 = lives; in row 0 twice the
//!                                                number of threads whose books were moved there
//!                  3   flags (low 32: bit 0 main thread), name length (high 32)
//!              4…11    dropped, by reason
//!                 12   evicted entries       13  evicted bytes
//!                 14   sealed entries: all entries of chunks that the thread has left
//!                 15   use: odd = the row is taken; bit 63 = and its thread has ended
//!              16…31   name
//! counter     word 0   value   1  number of changes   2  definition, 0 = free
//! pauses      word 0   how many there ever were; then pairs (start, end), end 0 = open
//! ```
//!
//! A row is published by the release store of an odd use count and reused only after all
//! chunks of its thread are gone and its books were added to row 0, the process's own.

#![allow(unsafe_code)]

use super::SharedWords;
use super::header::cut;
use super::layout::MAX_THREAD_NAME_BYTES;
use crate::ids::{DefinitionId, ThreadId};
use crate::losses::DropReason;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Timestamp;

/// Bit of a row's use count: its thread has ended.
const ENDED: u64 = 1 << 63;
/// Flag of a thread row: the process's main thread.
pub(crate) const MAIN_THREAD: u64 = 1;

/// The words of a thread row.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ThreadRow {
    tid: AtomicU64,
    registered: AtomicU64,
    unregistered: AtomicU64,
    flags_name: AtomicU64,
    dropped: [AtomicU64; 8],
    evicted_entries: AtomicU64,
    evicted_bytes: AtomicU64,
    sealed: AtomicU64,
    used: AtomicU64,
    name: [AtomicU64; 16],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for ThreadRow {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<ThreadRow>() as u64 == super::layout::THREAD_BYTES);
const _: () = assert!(DropReason::COUNT <= 8);

impl ThreadRow {
    /// Takes the row for a thread and says which use of the row that is. The caller has taken
    /// the row's number.
    pub(crate) fn register(&self, tid: ThreadId, at: Timestamp, is_main: bool, name: &str) -> u64 {
        let zeroed = [&self.unregistered, &self.evicted_entries, &self.evicted_bytes, &self.sealed];
        zeroed.into_iter().chain(&self.dropped).for_each(|word| word.store(0, Ordering::Relaxed));
        self.tid.store(tid.get(), Ordering::Relaxed);
        self.registered.store(at.raw(), Ordering::Relaxed);
        self.flags_name.store(if is_main { MAIN_THREAD } else { 0 }, Ordering::Relaxed);
        self.rename(name);
        let used = self.used.load(Ordering::Relaxed) | 1;
        self.used.store(used, Ordering::Release);
        used
    }

    /// Changes the shown name. Only the thread itself does.
    pub(crate) fn rename(&self, name: &str) {
        let bytes = cut(name, MAX_THREAD_NAME_BYTES).as_bytes();
        for (index, word) in self.name.iter().enumerate() {
            let rest = bytes.get(index.saturating_mul(8)..).unwrap_or_default();
            let mut value = [0_u8; 8];
            value.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
        let flags = self.flags_name.load(Ordering::Relaxed) & 0xffff_ffff;
        self.flags_name.store(flags | ((bytes.len() as u64) << 32), Ordering::Release);
    }

    /// Notes that the thread has ended, unless this use of the row is over already.
    pub(crate) fn end(&self, own_use: u64, at: Timestamp) -> bool {
        let ended = own_use | ENDED;
        if self.used.compare_exchange(own_use, ended, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        self.unregistered.store(at.raw(), Ordering::Release);
        true
    }

    /// Whether the row's thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.used.load(Ordering::Acquire) & ENDED != 0
    }

    /// Frees the row. The caller holds the manager's lock and has kept its books.
    pub(crate) fn free(&self) {
        let used = self.used.load(Ordering::Relaxed) & !ENDED;
        self.used.store((used | 1).wrapping_add(1), Ordering::Release);
    }

    /// Counts an entry that was not written.
    pub(crate) fn count_drop(&self, reason: DropReason) {
        if let Some(word) = self.dropped.get(reason as usize) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a destroyed chunk.
    pub(crate) fn count_evicted(&self, entries: u64, bytes: u64) {
        self.evicted_entries.fetch_add(entries, Ordering::Relaxed);
        self.evicted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that the thread has left a chunk with `entries` entries up to here in total.
    pub(crate) fn seal(&self, entries: u64) {
        self.sealed.store(entries, Ordering::Release);
    }

    /// The same, said by another than the thread itself, which may have gone on. The caller holds
    /// the manager's lock, so the row keeps its thread.
    pub(crate) fn seal_at_least(&self, entries: u64) {
        self.sealed.fetch_max(entries, Ordering::AcqRel);
    }

    pub(crate) fn sealed(&self) -> u64 {
        self.sealed.load(Ordering::Acquire)
    }

    pub(crate) fn evicted(&self) -> (u64, u64) {
        (self.evicted_entries.load(Ordering::Relaxed), self.evicted_bytes.load(Ordering::Relaxed))
    }

    /// Adds the books of a thread that leaves its row to these, the process's own, and frees
    /// its row. Meanwhile the move count is odd: a reader that sees it so looks again.
    pub(crate) fn absorb(&self, gone: &Self) {
        self.unregistered.fetch_add(1, Ordering::AcqRel);
        for (mine, theirs) in self.dropped.iter().zip(&gone.dropped) {
            mine.fetch_add(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let (entries, bytes) = gone.evicted();
        self.count_evicted(entries, bytes);
        self.sealed.fetch_add(gone.sealed(), Ordering::Relaxed);
        gone.free();
        self.unregistered.fetch_add(1, Ordering::Release);
    }
}

/// The words of a counter cell.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct CounterCell {
    value: AtomicU64,
    number: AtomicU64,
    definition: AtomicU64,
    spare: [AtomicU64; 5],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for CounterCell {}

#[cfg(not(loom))]
const _: () = assert!(size_of::<CounterCell>() as u64 == super::layout::COUNTER_BYTES);

impl CounterCell {
    /// Adds to the value, which wraps like two's complement.
    #[inline]
    pub(crate) fn add(&self, delta: i64) {
        self.value.fetch_add(delta.cast_unsigned(), Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Sets the value.
    #[inline]
    pub(crate) fn set(&self, value: i64) {
        self.value.store(value.cast_unsigned(), Ordering::Relaxed);
        self.number.fetch_add(1, Ordering::Relaxed);
    }

    /// Zero again; a new session begins.
    pub(crate) fn reset(&self) {
        self.value.store(0, Ordering::Relaxed);
        self.number.store(0, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.value.load(Ordering::Relaxed).cast_signed()
    }

    /// Makes the cell known under its definition.
    pub(crate) fn publish(&self, definition: DefinitionId) {
        self.definition.store(u64::from(definition.get()), Ordering::Release);
    }
}

/// The words of the paused ranges.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PauseTable {
    count: AtomicU64,
    spare: AtomicU64,
    ranges: [[AtomicU64; 2]; super::layout::MAX_PAUSES as usize],
}

// SAFETY: repr(C), AtomicU64 words only.
unsafe impl SharedWords for PauseTable {}

impl PauseTable {
    /// Opens a range. The caller holds the session's lock.
    pub(crate) fn open(&self, at: Timestamp) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some([start, end]) = self.slot(count) {
            start.store(at.raw(), Ordering::Relaxed);
            end.store(0, Ordering::Relaxed);
        }
        self.count.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Closes the last range.
    pub(crate) fn close(&self, at: Timestamp) {
        let last = self.count.load(Ordering::Relaxed).checked_sub(1);
        if let Some([_, end]) = last.and_then(|last| self.slot(last)) {
            end.store(at.raw(), Ordering::Release);
        }
    }

    /// Forgets all ranges.
    pub(crate) fn clear(&self) {
        self.count.store(0, Ordering::Release);
    }

    fn slot(&self, index: u64) -> Option<&[AtomicU64; 2]> {
        let len = self.ranges.len() as u64;
        self.ranges.get(usize::try_from(index % len).ok()?)
    }
}
