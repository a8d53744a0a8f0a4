//! What one thread does to add an entry: the fast way, and the slow way behind it.
//!
//! Each recording thread owns one [`Recorder`], found through `record::local`. The fast way is
//! straight-line code: a look at the gate, the entry's words into the chunk, one release store.
//! No system call, no lock, no allocation. The slow way takes the next chunk, or joins a session.
//!
//! ```text
//! owner:   busy = 1 · compiler fence · armed == gate? · write entry · commit · busy = 0 (release)
//! seizer:  armed = 0 · barrier on all threads · busy == 0 (acquire)? · take the chunk by CAS
//! ```
//!
//! The barrier makes the owner's plain stores and loads as good as sequentially consistent for
//! the seizer: if it sees `busy == 0`, the owner's next entry sees `armed == 0`. So a stop can take
//! a chunk away from a thread that sleeps for ever, without any fence on the fast way.
//!
//! Invariants: [`Own`] is touched by the owner only, and only while `busy` is 1; `chunk` names
//! the open chunk, and whoever takes it out of there (owner by swap, seizer by CAS) releases it.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use super::gate;
use super::patience::{once_per_thread, soon};
use crate::entry::MAX_ENTRY_BYTES;
use crate::ids::{ChunkIndex, ThreadId, ThreadIndex};
use crate::losses::DropReason;
use crate::manager::ChunkManager;
use crate::manager::chunks::NoChunk;
use crate::pool::layout::SIZE_CLASSES;
use crate::pool::live::ThreadRow;
use crate::pool::slot::{ChunkSlot, Commit, HAS_FOREIGN, Opening};
use crate::time::Timestamp;

/// Why the slow way did not end with room for the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    /// Nothing to count: the session is off or the thread is not selected.
    Off,
    /// Counted in the thread's row.
    Dropped(DropReason),
}

/// Where a recorder writes in a session.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) manager: Arc<ChunkManager>,
    pub(crate) epoch: u64,
    pub(crate) row: ThreadIndex,
    pub(crate) selected: bool,
    /// Ticks within which a filled chunk calls for a larger one.
    pub(crate) fast_fill: u64,
}

/// One thread's way into the pool.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Recorder {
    /// The gate's word that this recorder is set up for; 0 = the slow way first.
    armed: AtomicU64,
    busy: AtomicU32,
    /// Open chunk + 1, 0 = none.
    chunk: AtomicU64,
    own: UnsafeCell<Own>,
    tid: ThreadId,
}

// SAFETY: all fields but `own` are atomics or immutable; `own` is touched only by the one thread
// that the recorder was made for (it sits in that thread's thread-local), see the module doc.
unsafe impl Sync for Recorder {}
// SAFETY: as above; the pointers in `own` point into the pool that `home` keeps mapped.
unsafe impl Send for Recorder {}

/// The owner's private state.
#[derive(Debug)]
struct Own {
    next: *mut u64,
    left: usize,
    commit: Commit,
    slot: *const ChunkSlot,
    /// Class wished for at the last switch; a smaller one may be what there was.
    wish: u8,
    taken: Timestamp,
    first_entry: u64,
    home: Option<Home>,
}

/// What follows the fixed words of an entry: inline name, then payload.
pub(crate) struct Tail<'a, F> {
    pub(crate) name: &'a str,
    /// Encodes the payload into the room and says how many bytes it took, or that the room
    /// does not suffice (`Ok(None)`), or that it cannot be encoded.
    pub(crate) encode: F,
}

impl Recorder {
    pub(crate) fn new(tid: ThreadId) -> Self {
        let own = Own {
            next: ptr::null_mut(),
            left: 0,
            commit: Commit::default(),
            slot: ptr::null(),
            wish: 0,
            taken: Timestamp::ZERO,
            first_entry: 0,
            home: None,
        };
        Self {
            armed: AtomicU64::new(0),
            busy: AtomicU32::new(0),
            chunk: AtomicU64::new(0),
            own: UnsafeCell::new(own),
            tid,
        }
    }

    pub(crate) const fn tid(&self) -> ThreadId {
        self.tid
    }

    /// Adds an entry of fixed size. Called by the owner only.
    #[inline(always)]
    pub(crate) fn fixed<const N: usize>(&self, entry: [u64; N], foreign: bool) {
        if self.busy.load(Ordering::Relaxed) != 0 {
            return self.count_reentrant();
        }
        self.busy.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `busy` is ours, so nobody else has a reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        if self.armed.load(Ordering::Relaxed) == gate::word() && own.left >= N && !foreign {
            // SAFETY: armed for this session, so the recorder has a chunk with `left` words.
            unsafe { own.write(&entry) };
        } else {
            self.fixed_slow(own, &entry, foreign);
        }
        self.busy.store(0, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn fixed_slow(&self, own: &mut Own, entry: &[u64], foreign: bool) {
        if self.prepare(own, entry.len()).is_ok() {
            if foreign {
                own.mark_foreign();
            }
            // SAFETY: `prepare` made room for the entry in an open chunk of ours.
            unsafe { own.write(entry) };
        }
    }

    /// Adds an entry with a tail. `head` gets the number of words and gives the first word;
    /// `fixed` are the words behind it. Called by the owner only.
    pub(crate) fn with_tail<F>(
        &self,
        head: impl Fn(usize) -> u64,
        fixed: &[u64],
        mut tail: Tail<'_, F>,
        foreign: bool,
    ) where
        F: FnMut(&mut [u8]) -> Result<Option<usize>, ()>,
    {
        if self.busy.load(Ordering::Relaxed) != 0 {
            return self.count_reentrant();
        }
        self.busy.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let _reset = ResetBusy(self);
        // SAFETY: `busy` is ours, so nobody else has a reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        let minimum = fixed.len().saturating_add(2).saturating_add(tail.name.len().div_ceil(8));
        let is_ready = self.armed.load(Ordering::Relaxed) == gate::word() && own.left >= minimum;
        if !is_ready && self.prepare(own, minimum).is_err() {
            return;
        }
        if foreign {
            own.mark_foreign();
        }
        self.encode_growing(own, &head, fixed, &mut tail);
    }

    /// Encodes into what is left of the chunk; if that does not suffice, into a fresh chunk,
    /// then into ever larger ones.
    fn encode_growing<F>(
        &self,
        own: &mut Own,
        head: &impl Fn(usize) -> u64,
        fixed: &[u64],
        tail: &mut Tail<'_, F>,
    ) where
        F: FnMut(&mut [u8]) -> Result<Option<usize>, ()>,
    {
        loop {
            match own.try_tail(head, fixed, tail) {
                Ok(true) => return,
                Ok(false) => {}
                Err(()) => return self.count(own, DropReason::Unencodable),
            }
            let larger =
                if own.commit == Commit::default() { own.capacity_words() + 1 } else { own.left + 1 };
            if self.prepare(own, larger).is_err() {
                return;
            }
        }
    }

    /// Joins the session that the gate speaks of, unless that is done already.
    fn enter(&self, own: &mut Own) -> Result<u64, NotRecorded> {
        let word = gate::word();
        if word & gate::ACTIVE == 0 {
            return Err(NotRecorded::Off);
        }
        if own.home.as_ref().is_none_or(|home| home.epoch != gate::epoch_of(word)) {
            self.leave(own, Timestamp::now());
            own.home = None;
            own.home = Some(super::local::join(self, word)?);
        }
        Ok(word)
    }

    /// Makes the recorder ready for an entry of `words` words, or says why not.
    fn prepare(&self, own: &mut Own, words: usize) -> Result<(), NotRecorded> {
        let word = self.enter(own)?;
        if !own.home.as_ref().is_some_and(|home| home.selected) {
            return Err(NotRecorded::Off);
        }
        if word & gate::PAUSED != 0 {
            self.count(own, DropReason::Paused);
            return Err(NotRecorded::Dropped(DropReason::Paused));
        }
        if self.chunk.load(Ordering::Relaxed) == 0 {
            own.left = 0; // seized, or never had one
        }
        self.armed.store(word, Ordering::Relaxed);
        if own.left >= words { Ok(()) } else { self.switch(own, words) }
    }

    /// Leaves the current chunk and takes one with room for `words`.
    fn switch(&self, own: &mut Own, words: usize) -> Result<(), NotRecorded> {
        if words.saturating_mul(8) > MAX_ENTRY_BYTES {
            self.count(own, DropReason::Oversize);
            return Err(NotRecorded::Dropped(DropReason::Oversize));
        }
        let now = Timestamp::now();
        let wished = own.wished_class(now);
        self.leave(own, now);
        let taken = self.take_chunk(own, wished, words).and_then(|index| self.open(own, index, now));
        taken.map(|()| own.wish = wished).map_err(|reason| {
            self.count(own, reason);
            NotRecorded::Dropped(reason)
        })
    }

    /// A chunk of the wished class, or of one that at least holds `words`: ready if possible,
    /// else by the slow way, once.
    fn take_chunk(&self, own: &Own, wished: u8, words: usize) -> Result<ChunkIndex, DropReason> {
        let home = own.home.as_ref().ok_or(DropReason::Full)?;
        let manager = &*home.manager;
        let layout = manager.pool().layout();
        let fits = |class: &u8| layout.class_bytes(*class) >= words as u64 * 8;
        let least = (0..SIZE_CLASSES).find(fits).ok_or(DropReason::Oversize)?;
        let wished = wished.max(least);
        manager.ready.wish(wished);
        let ready = (least..=wished).rev().find_map(|class| manager.ready.take(class));
        manager.work.notify();
        if let Some(index) = ready {
            return Ok(index);
        }
        let state = || manager.try_lock();
        let is_first = own.slot.is_null();
        let state = if is_first { once_per_thread(state) } else { soon(state) };
        let mut state = state.ok_or(DropReason::Full)?;
        state.chunks.collect_done(manager);
        for class in (least..=wished).rev() {
            match state.chunks.acquire(manager, class) {
                Ok(index) => return Ok(index),
                Err(NoChunk::NoSpace | NoChunk::NoBudget) => {}
            }
        }
        Err(DropReason::NoBudget)
    }

    fn open(&self, own: &mut Own, index: ChunkIndex, now: Timestamp) -> Result<(), DropReason> {
        let home = own.home.as_ref().ok_or(DropReason::Full)?;
        let pool = home.manager.pool();
        let slot = pool.slot(index).ok_or(DropReason::Full)?;
        let row = pool.thread_row(home.row).ok_or(DropReason::Full)?;
        let memory = pool.map().address(pool.chunk_extent(slot)).ok_or(DropReason::Full)?;
        let first_entry = row.sealed();
        slot.open(Opening { thread: home.row, start: now, first_entry });
        own.next = memory.as_ptr().cast();
        own.left = usize::try_from(slot.bytes() / 8).unwrap_or(0);
        own.commit = Commit::default();
        own.slot = ptr::from_ref(slot);
        own.taken = now;
        own.first_entry = first_entry;
        self.chunk.store(u64::from(index.get()) + 1, Ordering::Release);
        Ok(())
    }

    /// Gives the open chunk, if there is one, to the manager.
    fn leave(&self, own: &mut Own, now: Timestamp) {
        own.left = 0;
        let index = self.chunk.swap(0, Ordering::AcqRel);
        if let (Some(home), Some(index)) = (own.home.as_ref(), chunk_index(index)) {
            // A row of an earlier session may belong to another thread by now.
            let row = (home.epoch == gate::epoch_of(gate::word())).then_some(home.row);
            hand_over(&home.manager, row, index, now);
        }
    }

    /// Ends the thread's part in the session. Called by the owner, when its thread ends.
    pub(crate) fn close(&self) {
        self.busy.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `busy` is ours, so nobody else has a reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        let now = Timestamp::now();
        self.leave(own, now);
        if let Some(home) = own.home.take() {
            home.manager.lock().rows.end_thread(&home.manager, home.row, now);
            home.manager.work.notify();
        }
        // `busy` stays 1: nothing is recorded through this recorder any more.
    }

    /// Runs `body` with the recorder's session, joining it first if need be; `None` if that
    /// cannot be, which is counted.
    pub(crate) fn with_home<T>(&self, body: impl FnOnce(&Home) -> T) -> Option<T> {
        if self.busy.swap(1, Ordering::Relaxed) != 0 {
            self.count_reentrant();
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        let _reset = ResetBusy(self);
        // SAFETY: `busy` is ours, so nobody else has a reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        self.enter(own).ok()?;
        own.home.as_ref().map(body)
    }

    /// Takes the open chunk away from a thread that is not recording right now.
    ///
    /// Called with the manager's lock held, after `disarm` and a barrier on all threads. False
    /// if the owner is in the middle of an entry: then it keeps its chunk until its next switch.
    pub(crate) fn seize(&self, manager: &ChunkManager) -> bool {
        if self.busy.load(Ordering::Acquire) != 0 {
            return false;
        }
        let word = self.chunk.load(Ordering::Acquire);
        let Some(index) = chunk_index(word) else { return true };
        let taken = self.chunk.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if let (true, Some(slot)) = (taken, manager.pool().slot(index)) {
            hand_over(manager, Some(slot.thread()), index, Timestamp::now());
        }
        taken
    }

    /// Makes the owner's next entry go the slow way.
    pub(crate) fn disarm(&self) {
        self.armed.store(0, Ordering::SeqCst);
    }

    #[cold]
    #[inline(never)]
    fn count_reentrant(&self) {
        super::local::count_in_process_row(DropReason::Reentrant);
    }

    fn count(&self, own: &Own, reason: DropReason) {
        if let Some(row) = own.row() {
            row.count_drop(reason);
        }
    }
}

impl Own {
    /// Writes an entry and publishes it.
    ///
    /// # Safety
    /// The recorder has an open chunk of its own with at least `entry.len()` words left.
    #[inline(always)]
    unsafe fn write(&mut self, entry: &[u64]) {
        // SAFETY: there is an open chunk, so `slot` points into the pool that `home` keeps mapped.
        let slot = unsafe { &*self.slot };
        slot.begin(self.commit);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `next` has `left >= entry.len()` words of uncommitted room that only we touch;
        // `entry` is a caller's array and cannot overlap the pool.
        unsafe { ptr::copy_nonoverlapping(entry.as_ptr(), self.next, entry.len()) };
        // SAFETY: still inside the chunk or one past its end.
        unsafe { self.finish(slot, entry.len()) };
    }

    /// Publishes `words` words written at `next`.
    ///
    /// # Safety
    /// As for [`Own::write`], and the words are written.
    #[inline(always)]
    unsafe fn finish(&mut self, slot: &ChunkSlot, words: usize) {
        self.commit = self.commit.plus(words as u64 * 8);
        slot.publish(self.commit);
        // SAFETY: `words <= left`, so the result is inside the chunk or one past its end.
        self.next = unsafe { self.next.add(words) };
        self.left -= words;
    }

    /// Tries to write an entry with a tail into what is left; `Ok(false)` if it does not fit.
    fn try_tail<F>(
        &mut self,
        head: &impl Fn(usize) -> u64,
        fixed: &[u64],
        tail: &mut Tail<'_, F>,
    ) -> Result<bool, ()>
    where
        F: FnMut(&mut [u8]) -> Result<Option<usize>, ()>,
    {
        let before = fixed.len() + 2; // head, fixed words, lengths
        let name = tail.name.as_bytes();
        if self.slot.is_null() || before + name.len().div_ceil(8) > self.left {
            return Ok(false);
        }
        // SAFETY: there is an open chunk, so `slot` points into the pool that `home` keeps mapped.
        let slot = unsafe { &*self.slot };
        slot.begin(self.commit);
        let mut abandon = Abandon { slot, commit: self.commit, row: self.row(), returned: false };
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `left` words of uncommitted room begin at `next`; only we touch them, no
        // reference into them exists elsewhere, and every bit pattern is a valid word.
        let room = unsafe { std::slice::from_raw_parts_mut(self.next, self.left) };
        let filled = fill(room, head, fixed, name, &mut tail.encode);
        abandon.returned = true;
        let Some(words) = filled? else { return Ok(false) };
        std::mem::forget(abandon);
        // SAFETY: `fill` wrote `words <= left` words at `next`.
        unsafe { self.finish(slot, words) };
        Ok(true)
    }

    fn mark_foreign(&self) {
        // SAFETY: called after `prepare`, so there is an open chunk and `slot` is valid.
        if let Some(slot) = unsafe { self.slot.as_ref() } {
            slot.set_flag(HAS_FOREIGN);
        }
    }

    fn row(&self) -> Option<&ThreadRow> {
        let home = self.home.as_ref()?;
        home.manager.pool().thread_row(home.row)
    }

    fn capacity_words(&self) -> usize {
        self.left + usize::try_from(self.commit.bytes() / 8).unwrap_or(0)
    }

    /// The class to wish for next: one up when this chunk filled fast, one down when slowly.
    ///
    /// Not the class of the chunk itself: one that was smaller for want of a better says nothing
    /// about the pace, and to grow from it once more would need many small chunks just
    /// when there is a shortage.
    fn wished_class(&self, now: Timestamp) -> u8 {
        let Some(home) = &self.home else { return 0 };
        if self.taken == Timestamp::ZERO || self.commit.entries() == 0 {
            return 0;
        }
        let took = now.since(self.taken);
        let next = if took < home.fast_fill { self.wish + 1 } else { self.wish.saturating_sub(1) };
        next.min(largest_class(&home.manager))
    }
}

/// Gives a chunk to the manager: seals its entries in the thread's row and lists it as done.
fn hand_over(manager: &ChunkManager, row: Option<ThreadIndex>, index: ChunkIndex, now: Timestamp) {
    let Some(slot) = manager.pool().slot(index) else { return };
    slot.finish(now);
    if let Some(row) = row.and_then(|row| manager.pool().thread_row(row)) {
        row.seal(slot.first_entry().wrapping_add(slot.committed().entries()));
    }
    manager.done.push(slot, index);
}

/// Chunks stay below a sixteenth of the allowance, so that what is kept is kept finely.
fn largest_class(manager: &ChunkManager) -> u8 {
    let (_, allowed) = manager.pool().budget().used_and_allowed();
    let largest = (allowed / 16).max(manager.pool().layout().page);
    crate::manager::chunks::class_of(manager.pool().layout(), largest).min(SIZE_CLASSES - 1)
}

fn chunk_index(word: u64) -> Option<ChunkIndex> {
    u32::try_from(word.checked_sub(1)?).ok().map(ChunkIndex::new)
}

/// Fills in an entry with a tail; `None` if the room does not suffice.
fn fill<F>(
    room: &mut [u64],
    head: &impl Fn(usize) -> u64,
    fixed: &[u64],
    name: &[u8],
    encode: &mut F,
) -> Result<Option<usize>, ()>
where
    F: FnMut(&mut [u8]) -> Result<Option<usize>, ()>,
{
    let Some((front, back)) = room.split_at_mut_checked(fixed.len() + 2) else { return Ok(None) };
    // SAFETY: any word is eight valid bytes, and u8 has no alignment.
    let (_, tail, _) = unsafe { back.align_to_mut::<u8>() };
    let Some((name_room, payload_room)) = tail.split_at_mut_checked(name.len()) else { return Ok(None) };
    name_room.copy_from_slice(name);
    let limit = payload_room.len().min(MAX_ENTRY_BYTES);
    let Some(payload_len) = encode(payload_room.get_mut(..limit).unwrap_or_default())? else {
        return Ok(None);
    };
    let words = front.len() + (name.len() + payload_len).div_ceil(8);
    let lengths = (name.len() as u64) | ((payload_len as u64) << 32);
    let values = std::iter::once(head(words)).chain(fixed.iter().copied()).chain(std::iter::once(lengths));
    front.iter_mut().zip(values).for_each(|(to, value)| *to = value);
    Ok(Some(words))
}

/// Takes the note of a begun entry back unless the entry was finished; a panic of the payload's
/// serialisation, which never returned, is counted.
struct Abandon<'a> {
    slot: &'a ChunkSlot,
    commit: Commit,
    row: Option<&'a ThreadRow>,
    returned: bool,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.slot.abandon(self.commit);
        if let (false, Some(row)) = (self.returned, self.row) {
            row.count_drop(DropReason::Unencodable);
        }
    }
}

/// Ends the owner's turn, also when a payload's serialisation panics.
struct ResetBusy<'a>(&'a Recorder);

impl Drop for ResetBusy<'_> {
    fn drop(&mut self) {
        self.0.busy.store(0, Ordering::Release);
    }
}
