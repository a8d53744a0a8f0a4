//! What one thread does to add an entry: the fast way, and the slow way behind it.
//!
//! Each recording thread owns one [`Recorder`], found through `record::local`. The fast way is
//! straight-line code: a look at the gate, the entry's words into the chunk, one release store.
//! No system call, no lock, no allocation. The slow way takes the next chunk, or joins a session.
//!
//! ```text
//! owner:   busy = 1 · compiler fence · armed == gate? · write entry · commit · busy = 0 (release)
//! seizer:  disarm · barrier on all threads · busy == 0 (acquire)? · take the chunk by CAS
//! ```
//!
//! The barrier makes the owner's plain stores and loads as good as sequentially consistent for
//! the seizer: if it sees `busy == 0`, the owner's next entry finds itself disarmed. So a stop can take
//! a chunk away from a thread that sleeps for ever, without any fence on the fast way.
//!
//! Invariants: [`Own`] is touched by the owner only, and only while `busy` is 1; `chunk` names
//! the open chunk, and whoever takes it out of there (owner by swap, seizer by CAS) releases it.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};

use super::gate;
use super::writer::{Front, Home, Own, Tail};
use crate::entry::{MAX_ENTRY_BYTES, is_foreign};
use crate::ids::{ChunkIndex, ThreadId, ThreadIndex};
use crate::losses::DropReason;
use crate::manager::ChunkManager;
use crate::manager::chunks::{NoChunk, class_of};
use crate::pool::layout::SIZE_CLASSES;
use crate::pool::slot::{ChunkSlot, Commit, Opening};
use crate::time::Timestamp;

/// Sends the next entry the slow way. Never a word of the gate, not even of a closed one: a
/// thread may have found the gate open just before it was closed and the chunk seized.
const DISARMED: u64 = u64::MAX;

/// Why the slow way did not end with room for the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    /// Nothing to count: the session is off or the thread is not selected.
    Off,
    /// Counted in the thread's row.
    Dropped(DropReason),
}

/// One thread's way into the pool.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Recorder {
    /// The gate's word that this recorder is set up for, or [`DISARMED`].
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

impl Recorder {
    pub(crate) fn new(tid: ThreadId) -> Self {
        Self {
            armed: AtomicU64::new(DISARMED),
            busy: AtomicU32::new(0),
            chunk: AtomicU64::new(0),
            own: UnsafeCell::new(Own::nowhere()),
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

    /// Adds an entry with a tail. Called by the owner only.
    #[inline]
    pub(crate) fn with_tail<F>(&self, front: Front, mut tail: Tail<'_, F>)
    where
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
        let minimum = Front::MOST_WORDS.saturating_add(tail.name.len().div_ceil(8));
        let is_ready = self.armed.load(Ordering::Relaxed) == gate::word() && own.left >= minimum;
        if !is_ready && self.prepare(own, minimum).is_err() {
            return;
        }
        if is_foreign(front.head) {
            own.mark_foreign();
        }
        match own.try_tail(&front, &mut tail) {
            Ok(true) => {}
            Ok(false) => self.encode_growing(own, &front, &mut tail),
            Err(()) => self.count(own, DropReason::Unencodable),
        }
    }

    /// Encodes into a fresh chunk, since the last one had not enough left, then into ones four
    /// times as large each.
    #[cold]
    #[inline(never)]
    fn encode_growing<F>(&self, own: &mut Own, front: &Front, tail: &mut Tail<'_, F>)
    where
        F: FnMut(&mut [u8]) -> Result<Option<usize>, ()>,
    {
        loop {
            let fresh = own.commit == Commit::default();
            let larger = if fresh { own.larger_words() } else { own.left + 1 };
            if self.prepare(own, larger).is_err() {
                return;
            }
            if is_foreign(front.head) {
                own.mark_foreign();
            }
            match own.try_tail(front, tail) {
                Ok(true) => return,
                Ok(false) => {}
                Err(()) => return self.count(own, DropReason::Unencodable),
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
        let mut state = manager.try_lock().ok_or(DropReason::Full)?;
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
            if row.is_none() || !put_back(&home.manager, index) {
                hand_over(&home.manager, row, index, now);
            }
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

    /// Runs `body` with the recorder's session, joining it first if need be.
    pub(crate) fn with_home<T>(&self, body: impl FnOnce(&Home) -> T) -> Option<T> {
        if self.busy.swap(1, Ordering::Relaxed) != 0 {
            return None;
        }
        compiler_fence(Ordering::SeqCst);
        let _reset = ResetBusy(self);
        // SAFETY: `busy` is ours, so nobody else has a reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        self.enter(own).ok()?;
        own.home.as_ref().map(body)
    }

    /// Runs `body` with the chunk manager of the running session if the thread records in it
    /// already. `None` otherwise, also in the middle of an entry: the caller has another way.
    #[inline]
    pub(crate) fn with_joined<T>(&self, body: impl FnOnce(&ChunkManager) -> T) -> Option<T> {
        if self.busy.load(Ordering::Relaxed) != 0 {
            return None;
        }
        self.busy.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let _reset = ResetBusy(self);
        if self.armed.load(Ordering::Relaxed) != gate::word() {
            return None;
        }
        // SAFETY: `busy` is ours, so nobody else has a reference (module invariant).
        let own = unsafe { &*self.own.get() };
        own.home.as_ref().map(|home| body(&home.manager))
    }

    /// Counts an entry of a thread that could not join the session, or that is recording already.
    pub(crate) fn count_unjoined(&self) {
        let busy = self.busy.load(Ordering::Relaxed) != 0;
        super::local::count_in_process_row(if busy { DropReason::Reentrant } else { DropReason::Full });
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
        self.armed.store(DISARMED, Ordering::SeqCst);
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

/// Makes a chunk that nothing was written into ready again; nobody else need hear of it. False if
/// something was written, or if no place is free.
fn put_back(manager: &ChunkManager, index: ChunkIndex) -> bool {
    let empty = |slot: &&ChunkSlot| slot.committed().entries() == 0;
    let Some(slot) = manager.pool().slot(index).filter(empty) else { return false };
    let opening =
        Opening { thread: slot.thread(), start: slot.start_time(), first_entry: slot.first_entry() };
    slot.close();
    let class = class_of(manager.pool().layout(), slot.bytes());
    let is_back = manager.ready.offer(class, index).is_ok();
    if !is_back {
        slot.open(opening);
    }
    is_back
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

fn chunk_index(word: u64) -> Option<ChunkIndex> {
    u32::try_from(word.checked_sub(1)?).ok().map(ChunkIndex::new)
}

/// Ends the owner's turn, also when a payload's serialisation panics.
struct ResetBusy<'a>(&'a Recorder);

impl Drop for ResetBusy<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.store(0, Ordering::Release);
    }
}
