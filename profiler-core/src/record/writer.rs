//! Writes the entries of a chunk's owner: the words, then the one store that publishes them.
//!
//! Used by [`super::recorder`] only, inside the owner's turn. Invariant: while `slot` is not null,
//! `left` words of uncommitted room that only the owner accesses begin at `next`, in a chunk of the
//! pool that `home` keeps mapped.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use super::backoff::{spin, spin_then_yield};
use crate::entry::trace::{TRACE_WORDS, encode_trace};
use crate::entry::{MAX_ENTRY_BYTES, fixed_words, with_length};
use crate::entry_counts::DropReason;
use crate::ids::{ChunkIndex, ThreadIndex};
use crate::manager::ChunkManager;
use crate::manager::chunks::class_of;
use crate::pool::layout::SIZE_CLASSES;
use crate::pool::live::{RowUse, ThreadRow};
use crate::pool::slot::{ChunkSlot, Commit, HAS_FOREIGN, Opening};
use crate::time::Timestamp;
use profiler_trace::TraceContext;

/// A recorder's session, row and filter result.
#[derive(Clone, Debug)]
pub(crate) struct ThreadContext {
    pub(crate) manager: Arc<ChunkManager>,
    pub(crate) epoch: u64,
    pub(crate) row: ThreadIndex,
    pub(crate) selected: bool,
    /// The row has the system's short name, and the session's filter has been asked for no other.
    pub(crate) is_named_by_system: bool,
    /// The kind of ownership of the row.
    pub(crate) tenure: RowOwnership,
    /// A chunk that fills within this number of ticks calls for a larger one.
    pub(crate) fast_fill: u64,
}

/// How a thread owns its row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowOwnership {
    /// Not owned: the thread is not selected, and the row is the process's.
    None,
    /// Owned until the thread ends.
    Own(RowUse),
    /// The main thread's row, kept for it if it leaves.
    Kept(RowUse),
}

impl ThreadContext {
    /// Releases the row.
    pub(super) fn leave(&self, now: Timestamp) {
        let threads = &self.manager.threads;
        let pool = self.manager.pool();
        match self.tenure {
            RowOwnership::None => {}
            RowOwnership::Own(own) => threads.end(pool, self.row, own, now),
            RowOwnership::Kept(own) => threads.step_back(pool, self.row, own),
        }
    }

    /// The thread's row, which holds its counts.
    pub(crate) fn row(&self) -> Option<&ThreadRow> {
        self.manager.pool().thread_row(self.row)
    }
}

/// The owner's private state.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) next: *mut u64,
    pub(super) left: usize,
    /// Words that are left as well, but that the fast path must not use, because the next entry
    /// states another trace.
    pub(super) hidden: usize,
    /// The trace that the entries of the chunk have stated last.
    pub(super) stated: Option<TraceContext>,
    /// Whether a chunk that states a trace and has no other entry is left empty.
    pub(super) retracts: bool,
    pub(super) commit: Commit,
    pub(super) slot: *const ChunkSlot,
    /// The class wished for at the last switch; the chunk may be smaller.
    pub(super) wish: u8,
    pub(super) taken: Timestamp,
    pub(super) home: Option<ThreadContext>,
    /// The thread's identity while there is no row for it.
    pub(super) waiting: Option<Waiting>,
}

/// A selected thread that found no row: cached so that later entries need not look it up again.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The session that selected it.
    pub(crate) epoch: u64,
    pub(crate) name: String,
    /// The name is the system's short one.
    pub(crate) is_named_by_system: bool,
}

/// The fixed words of an entry with a tail, without the lengths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// First word, with the low bits of the pool's tag in place of the length.
    pub(crate) head: u64,
    /// Times and thread number; the first word states how many there are.
    pub(crate) fixed: [u64; 3],
}

impl Front {
    /// Room for the first word, the longest fixed part and the lengths.
    const MAX_WORDS: usize = 5;

    /// The words that an entry with this name and an empty payload has at most.
    #[inline(always)]
    pub(super) const fn words_with(name: &str) -> usize {
        Self::MAX_WORDS + name.len().div_ceil(8)
    }

    /// The same words in another place of the stack.
    #[inline(always)]
    pub(crate) const fn copied(&self) -> Self {
        let [first, second, third] = self.fixed;
        Self {
            head: self.head,
            fixed: [first, second, third],
        }
    }
}

/// The buffer for an encoded payload.
#[derive(Debug)]
pub(crate) struct PayloadBuffer<'a> {
    pub(crate) bytes: &'a mut [u8],
    slot: &'a ChunkSlot,
}

/// Distinguishes a chunk's use from all earlier and later ones in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkLife {
    slot: usize,
    life: u64,
}

impl PayloadBuffer<'_> {
    /// The remaining room after `len` bytes.
    pub(crate) fn behind(self, len: usize) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.get_mut(len..)?,
            slot: self.slot,
        })
    }

    /// The chunk of this room. Has a cost: reads words that recording does not use.
    pub(crate) fn chunk(&self) -> ChunkLife {
        ChunkLife {
            slot: ptr::from_ref(self.slot).addr(),
            life: self.slot.life(),
        }
    }
}

impl Own {
    /// The state without a chunk.
    pub(super) fn nowhere() -> Self {
        Self {
            next: ptr::null_mut(),
            left: 0,
            hidden: 0,
            stated: None,
            retracts: false,
            commit: Commit::default(),
            slot: ptr::null(),
            wish: 0,
            taken: Timestamp::ZERO,
            home: None,
            waiting: None,
        }
    }

    /// Forgets the chunk after it was taken from this idle thread. The chunk's size does not
    /// determine that of the next one.
    pub(super) const fn forget_chunk(&mut self) {
        self.forget_room();
        self.taken = Timestamp::ZERO;
    }

    /// Forgets the room of a chunk that was left.
    pub(super) const fn forget_room(&mut self) {
        (self.left, self.hidden) = (0, 0);
        self.stated = None;
    }

    /// Makes the next entry take the slow path.
    #[inline]
    pub(super) const fn hide_room(&mut self) {
        self.hidden += self.left;
        self.left = 0;
    }

    /// Undoes [`Self::hide_room`].
    pub(super) const fn show_room(&mut self) {
        self.left += self.hidden;
        self.hidden = 0;
    }

    /// Whether the next entries of the chunk belong to this trace.
    pub(super) fn has_stated(&self, trace: Option<TraceContext>) -> bool {
        self.stated == trace
    }

    /// States that the next entries of the chunk belong to this trace, if there is room.
    pub(super) fn state(&mut self, trace: Option<TraceContext>) {
        if self.has_stated(trace) || self.left < TRACE_WORDS {
            return;
        }
        let entry = encode_trace(Timestamp::now(), trace);
        // SAFETY: room is left only in an open chunk of its own.
        unsafe { self.write(entry) };
        self.stated = trace;
    }

    /// Whether the chunk has no entry, except that which states the trace of the next ones.
    pub(super) const fn is_fresh(&self) -> bool {
        match self.commit.entries() {
            0 => true,
            1 => self.stated.is_some(),
            _ => false,
        }
    }

    /// Empties a chunk that is about to be left, if its only entry states a trace. Does so only for
    /// a chunk that the present turn has opened: no other thread has taken account of its entry.
    pub(super) fn retract_trace(&mut self) {
        if !self.retracts || self.stated.is_none() || !self.is_fresh() {
            return;
        }
        // SAFETY: null without an open chunk; otherwise it points into the pool that `home` keeps
        // mapped.
        if let Some(slot) = unsafe { self.slot.as_ref() } {
            self.commit = Commit::default();
            slot.abandon(self.commit);
            slot.publish(self.commit);
        }
    }

    /// A chunk of the wished class, or of a smaller one that holds `words`: a ready one if
    /// possible, otherwise by the slow path, once.
    pub(super) fn take_chunk(&self, wished: u8, words: usize) -> Result<ChunkIndex, DropReason> {
        let home = self.home.as_ref().ok_or(DropReason::Full)?;
        let manager = &*home.manager;
        let layout = manager.pool().layout();
        let fits = |class: &u8| layout.class_bytes(*class) >= words as u64 * 8;
        let least = (0..SIZE_CLASSES).find(fits).ok_or(DropReason::Oversize)?;
        let wished = wished.max(least);
        manager.ready.wish(wished);
        let ready = (least..=wished)
            .rev()
            .find_map(|class| manager.ready.take(class));
        let taken = ready
            .ok_or(DropReason::Full)
            .or_else(|_| slow_chunk(manager, least, wished, self.slot.is_null()));
        // Notify only now: an earlier wake-up would make the maintenance thread hold the lock that
        // we try.
        manager.work.notify();
        taken
    }

    /// Opens a chunk that was taken, for the entries from `now` on.
    pub(super) fn open(&mut self, index: ChunkIndex, now: Timestamp) -> Result<(), DropReason> {
        let home = self.home.as_ref().ok_or(DropReason::Full)?;
        let pool = home.manager.pool();
        let slot = pool.slot(index).ok_or(DropReason::Full)?;
        let row = pool.thread_row(home.row).ok_or(DropReason::Full)?;
        let memory = pool
            .map()
            .address(pool.chunk_extent(slot))
            .ok_or(DropReason::Full)?;
        let first_entry = row.sealed();
        slot.open(Opening {
            thread: home.row,
            start: now,
            first_entry,
        });
        self.next = memory.as_ptr().cast();
        (self.hidden, self.stated) = (0, None);
        self.left = usize::try_from(slot.bytes() / 8).unwrap_or(0);
        self.commit = Commit::default();
        self.slot = ptr::from_ref(slot);
        self.taken = now;
        Ok(())
    }

    /// Writes an entry and publishes it.
    ///
    /// # Safety
    /// The recorder has an open chunk of its own with at least `N` words left.
    #[inline(always)]
    pub(super) unsafe fn write<const N: usize>(&mut self, entry: [u64; N]) {
        // SAFETY: there is an open chunk, so `slot` points into the pool that `home` keeps mapped.
        let slot = unsafe { &*self.slot };
        slot.begin(self.commit);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `next` has `left >= N` words of uncommitted room. Only we access them, no other
        // reference to them exists, and every bit pattern is a valid word.
        let room = unsafe { &mut *self.next.cast::<[u64; N]>() };
        for (place, word) in room.iter_mut().zip(entry) {
            store(place, word);
        }
        // SAFETY: the result is inside the chunk or one past its end.
        unsafe { self.finish(slot, N) };
    }

    /// Publishes `words` words written at `next`.
    ///
    /// # Safety
    /// As for [`Own::write`], and the words have been written.
    #[inline(always)]
    unsafe fn finish(&mut self, slot: &ChunkSlot, words: usize) {
        self.commit = self.commit.plus(words as u64 * 8);
        slot.publish(self.commit);
        // SAFETY: `words <= left`, so the result is inside the chunk or one past its end.
        self.next = unsafe { self.next.add(words) };
        self.left -= words;
    }

    /// Tries to write an entry with a tail into the remaining room; `Ok(false)` if it does not fit.
    #[inline]
    pub(super) fn try_tail<F>(
        &mut self,
        front: Front,
        name: &str,
        encode: &mut F,
    ) -> Result<bool, ()>
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
    {
        if self.slot.is_null() || self.left < Front::words_with(name) {
            return Ok(false);
        }
        // SAFETY: there is an open chunk, so `slot` points into the pool that `home` keeps mapped.
        let slot = unsafe { &*self.slot };
        slot.begin(self.commit);
        let mut abandon = Abandon {
            slot,
            commit: self.commit,
            home: self.home.as_ref(),
            returned: false,
        };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `left` words of uncommitted room begin at `next`; only we access them, no other
        // reference to them exists, and every bit pattern is a valid word.
        let room = unsafe { std::slice::from_raw_parts_mut(self.next, self.left) };
        let filled = fill(room, slot, front, name.as_bytes(), encode);
        abandon.returned = true;
        let Some(words) = filled? else {
            return Ok(false);
        };
        std::mem::forget(abandon);
        // SAFETY: `fill` wrote `words <= left` words at `next`.
        unsafe { self.finish(slot, words) };
        Ok(true)
    }

    pub(super) fn mark_foreign(&self) {
        // SAFETY: null without an open chunk; otherwise it points into the pool that `home` keeps
        // mapped.
        if let Some(slot) = unsafe { self.slot.as_ref() } {
            slot.set_flag(HAS_FOREIGN);
        }
    }

    /// Counts an entry that was not written.
    pub(super) fn count(&self, reason: DropReason) {
        if let Some(row) = self.row() {
            row.count_drop(reason);
        }
    }

    fn row(&self) -> Option<&ThreadRow> {
        self.home.as_ref().and_then(ThreadContext::row)
    }

    /// The words to request when an empty chunk does not suffice: more than the next class holds,
    /// but no more than the largest entry, unless that did not suffice.
    pub(super) fn larger_words(&self) -> usize {
        let most = MAX_ENTRY_BYTES / 8;
        if self.left < most {
            self.left.saturating_mul(2).saturating_add(1).min(most)
        } else {
            self.left + 1
        }
    }

    /// The class to wish for next: one up when this chunk filled fast, one down when slowly.
    ///
    /// Based on the wished class, not on the chunk's own: a chunk that was smaller because of a
    /// shortage does not reflect the pace, and growing from it again would need many small chunks
    /// just during the shortage.
    pub(super) fn wished_class(&self, now: Timestamp) -> u8 {
        let Some(home) = &self.home else { return 0 };
        if self.taken == Timestamp::ZERO || self.is_fresh() {
            return 0;
        }
        let took = now.since(self.taken);
        let next = if took < home.fast_fill {
            self.wish + 1
        } else {
            self.wish.saturating_sub(1)
        };
        next.min(largest_class(&home.manager))
    }
}

/// The slow path to a chunk, from the largest wished class to the least sufficient one. Makes no
/// system call except to allocate a chunk in a file. Reclaiming memory is left to the maintenance
/// thread.
#[cold]
fn slow_chunk(
    manager: &ChunkManager,
    least: u8,
    wished: u8,
    is_first: bool,
) -> Result<ChunkIndex, DropReason> {
    manager.not_ready.fetch_add(1, Ordering::Relaxed);
    let state = || manager.try_lock();
    // A thread without a chunk would lose its first entries, so try for longer.
    let state = if is_first {
        spin_then_yield(state)
    } else {
        spin(state)
    };
    let mut state = state.ok_or(DropReason::Full)?;
    state.chunks.collect_done_quietly(manager);
    state
        .chunks
        .acquire_at_once(manager, least, wished)
        .map_err(|_| DropReason::NoBudget)
}

/// Gives a chunk to the manager: seals its entries in the thread's row and lists it as full. The
/// row still belongs to the thread, even if its session is over, because the thread has not
/// released it.
pub(super) fn hand_over(
    manager: &ChunkManager,
    row: ThreadIndex,
    index: ChunkIndex,
    now: Timestamp,
) {
    let Some(slot) = manager.pool().slot(index) else {
        return;
    };
    slot.finish(now);
    if let Some(row) = manager.pool().thread_row(row) {
        row.seal(slot.first_entry().wrapping_add(slot.committed().entries()));
    }
    manager.done.push(slot, index);
}

/// Limits chunks to a sixteenth of the allowance, so that data is dropped in small steps.
pub(super) fn largest_class(manager: &ChunkManager) -> u8 {
    let (_, allowed) = manager.pool().budget().used_and_allowed();
    let largest = (allowed / 16).max(manager.pool().layout().page);
    class_of(manager.pool().layout(), largest).min(SIZE_CLASSES - 1)
}

/// Stores one word.
///
/// The compiler would combine the copies of two adjacent words into one load and one store of 16
/// bytes. Both words were stored shortly before. Some processors cannot forward two stores to one
/// load, so the load waits until both stores have reached the cache. The compiler never combines
/// volatile stores.
#[inline(always)]
fn store(place: &mut u64, word: u64) {
    // SAFETY: the reference is valid for writes and aligned.
    unsafe { ptr::from_mut(place).write_volatile(word) };
}

/// Writes an entry with a tail; `None` if the room does not suffice.
#[inline]
fn fill<F>(
    room: &mut [u64],
    slot: &ChunkSlot,
    entry: Front,
    name: &[u8],
    encode: &mut F,
) -> Result<Option<usize>, ()>
where
    F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
{
    let [_, first, second, third, _, ..] = room else {
        return Ok(None);
    };
    // The lengths and the tail overwrite the words that the entry does not use.
    for (place, word) in [first, second, third].into_iter().zip(entry.fixed) {
        store(place, word);
    }
    let Some((front, back)) = room.split_at_mut_checked(fixed_words(entry.head) + 2) else {
        return Ok(None);
    };
    // SAFETY: any word is eight valid bytes, and u8 has no alignment.
    let (_, tail, _) = unsafe { back.align_to_mut::<u8>() };
    let Some((name_room, payload_room)) = tail.split_at_mut_checked(name.len()) else {
        return Ok(None);
    };
    name_room.copy_from_slice(name);
    let limit = payload_room.len().min(MAX_ENTRY_BYTES);
    let bytes = payload_room.get_mut(..limit).unwrap_or_default();
    let Some(payload_len) = encode(PayloadBuffer { bytes, slot })? else {
        return Ok(None);
    };
    let words = front.len() + (name.len() + payload_len).div_ceil(8);
    if let [head, .., lengths] = front {
        *head = with_length(entry.head, words);
        *lengths = (name.len() as u64) | ((payload_len as u64) << 32);
    }
    Ok(Some(words))
}

/// Undoes the note of a begun entry unless it was finished; counts a panic of the payload's
/// serialisation.
struct Abandon<'a> {
    slot: &'a ChunkSlot,
    commit: Commit,
    home: Option<&'a ThreadContext>,
    returned: bool,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.slot.abandon(self.commit);
        if let (false, Some(row)) = (self.returned, self.home.and_then(ThreadContext::row)) {
            row.count_drop(DropReason::Unencodable);
        }
    }
}
