//! Adds one thread's entries: the fast path, and the slow path behind it.
//!
//! Each recording thread owns one [`Recorder`], found through `record::local`. The fast path is
//! straight-line code: it checks the gate, writes the entry's words into the chunk, and publishes
//! them by one release store. It makes no system call, takes no lock and allocates nothing. The
//! slow path takes the next chunk, or joins a session.
//!
//! Invariants: [`Own`] is accessed by the owner only, and only within its turn of the
//! [`BiasedLock`]. `chunk` holds the number of the open chunk; the thread that takes it out
//! releases the chunk.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;

use super::biased_lock::{BiasedLock, OpenChunk, SeenChunk};
use super::session_state;
use super::writer::{Front, Own, PayloadBuffer, ThreadContext, hand_over};
use crate::carried::own_trace;
use crate::entry::trace::TRACE_WORDS;
use crate::entry::{MAX_ENTRY_BYTES, is_foreign, length_bits};
use crate::entry_counts::DropReason;
use crate::ids::{ChunkIndex, ThreadId};
use crate::manager::ChunkManager;
use crate::manager::chunks::class_of;
use crate::manager::full_chunks::Slots;
use crate::manager::ready::ReadyChunks;
use crate::pool::layout::Layout;
use crate::pool::slot::{ChunkSlot, Commit, Opening};
use crate::time::Timestamp;

/// The reason why the slow path found no room for the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRecorded {
    /// Nothing to count: the session is off or the thread is not selected.
    Off,
    /// Counted in the thread's row.
    Dropped(DropReason),
}

/// One thread's access to the pool.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Recorder {
    lock: BiasedLock,
    chunk: OpenChunk,
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
            lock: BiasedLock::new(),
            chunk: OpenChunk::none(),
            own: UnsafeCell::new(Own::nowhere()),
            tid,
        }
    }

    pub(crate) const fn tid(&self) -> ThreadId {
        self.tid
    }

    /// Adds an entry of fixed size, whose site belongs to the pool with this tag. Called by the
    /// owner only.
    #[inline(always)]
    pub(crate) fn fixed<const N: usize>(&self, entry: [u64; N], foreign: bool, tag: u64) {
        if !self.lock.begin() {
            return self.count_reentrant();
        }
        // SAFETY: within our turn, so there is no other reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        if self.lock.is_armed_for(session_state::word()) && own.left >= N && !foreign {
            // SAFETY: armed for this session, so the recorder has a chunk with `left` words.
            unsafe { own.write(entry) };
        } else if self.prepare_fixed(own, N, foreign, tag) {
            // SAFETY: the recorder has room for the entry in an open chunk of its own.
            unsafe { own.write(entry) };
        }
        self.lock.end();
    }

    /// Makes the recorder ready for an entry of fixed size. If true, it has an open chunk of its
    /// own with at least `words` words left; if false, the entry is dropped.
    ///
    /// The entry itself is not an argument: the compiler would store its words on the stack before
    /// it knows whether this function is called, and load them again for the fast path.
    #[cold]
    #[inline(never)]
    fn prepare_fixed(&self, own: &mut Own, words: usize, foreign: bool, tag: u64) -> bool {
        let is_ready = self.prepare(own, words, tag).is_ok();
        if is_ready && foreign {
            own.mark_foreign();
        }
        is_ready
    }

    /// Adds an entry with a tail: a name, then a payload that `encode` writes into the room.
    ///
    /// `encode` returns the length of the payload in bytes, or `Ok(None)` if the room does not
    /// suffice, or an error if the payload cannot be encoded. Called by the owner only.
    #[inline]
    pub(crate) fn with_tail<F>(&self, front: Front, name: &str, mut encode: F)
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
    {
        if !self.lock.begin() {
            return self.count_reentrant();
        }
        let _turn = Turn(self);
        // SAFETY: within our turn, so there is no other reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        let minimum = Front::words_with(name);
        let is_ready = self.lock.is_armed_for(session_state::word()) && own.left >= minimum;
        if !is_ready && self.prepare(own, minimum, length_bits(front.head)).is_err() {
            return;
        }
        if is_foreign(front.head) {
            own.mark_foreign();
        }
        match own.try_tail(front, name, &mut encode) {
            Ok(true) => {}
            // A copy: the compiler stores only the copy on the stack, and only here.
            Ok(false) => self.encode_growing(own, front.copied(), name, &mut encode),
            Err(()) => own.count(DropReason::Unencodable),
        }
    }

    /// Encodes into a fresh chunk, since the last one had too little room, then into chunks four
    /// times as large each.
    #[cold]
    #[inline(never)]
    fn encode_growing<F>(&self, own: &mut Own, front: Front, name: &str, encode: &mut F)
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
    {
        loop {
            let larger = if own.is_fresh() {
                own.larger_words()
            } else {
                own.left + 1
            };
            let prepared = self.prepare(own, larger, length_bits(front.head));
            // Only this turn has opened a chunk that the next pass leaves.
            own.retracts = true;
            if prepared.is_err() {
                break;
            }
            if is_foreign(front.head) {
                own.mark_foreign();
            }
            match own.try_tail(front, name, encode) {
                Ok(true) => break,
                Ok(false) => {}
                Err(()) => {
                    own.count(DropReason::Unencodable);
                    break;
                }
            }
        }
        own.retracts = false;
    }

    /// Joins the session of the gate's word, unless the thread has already joined it.
    fn enter(&self, own: &mut Own) -> Result<u64, NotRecorded> {
        let word = session_state::word();
        if word & session_state::ACTIVE == 0 {
            return Err(NotRecorded::Off);
        }
        self.name_anew(own);
        if own
            .home
            .as_ref()
            .is_none_or(|home| home.epoch != session_state::epoch_of(word))
        {
            self.leave_session(own, Timestamp::now());
            own.home = Some(super::join::join(self, word, &mut own.waiting)?);
        }
        Ok(word)
    }

    /// Renames the row when the thread leaves the allocator, where it has only the system's name.
    /// If that name was not selected, the filter is asked again.
    fn name_anew(&self, own: &mut Own) {
        let home = own.home.as_mut().filter(|home| home.is_named_by_system);
        let Some(home) = home.filter(|_| !super::local::is_in_allocator()) else {
            return;
        };
        home.is_named_by_system = false;
        if !home.selected {
            return self.leave_session(own, Timestamp::now());
        }
        if let Some(row) = home.row() {
            row.rename(&super::thread_names::thread_name().0);
        }
    }

    /// Makes the owner's next entry read the thread's name, if only the system's is known.
    pub(crate) fn disarm_if_named_by_system(&self) {
        if self.lock.begin() {
            let _turn = Turn(self);
            // SAFETY: within our turn, so there is no other reference (module invariant).
            let own = unsafe { &*self.own.get() };
            if own
                .home
                .as_ref()
                .is_some_and(|home| home.is_named_by_system)
            {
                self.lock.disarm();
            }
        }
    }

    /// Makes the recorder ready for an entry of `words` words whose site belongs to the pool with
    /// this tag (its low bits), or returns the reason why not.
    fn prepare(&self, own: &mut Own, words: usize, tag: u64) -> Result<(), NotRecorded> {
        let word = self.enter(own)?;
        // Another pool's numbers are invalid here: the entry began in an earlier session.
        let belongs =
            |home: &ThreadContext| home.selected && length_bits(home.manager.tag() ^ tag) == 0;
        if !own.home.as_ref().is_some_and(belongs) {
            return Err(NotRecorded::Off);
        }
        if word & session_state::PAUSED != 0 {
            own.count(DropReason::Paused);
            return Err(NotRecorded::Dropped(DropReason::Paused));
        }
        self.lock.arm(word);
        own.show_room();
        if !self.chunk.renew() {
            own.forget_chunk(); // seized, or never had one
        }
        let trace = own_trace();
        let most = words.saturating_add(TRACE_WORDS);
        if most.saturating_mul(8) > MAX_ENTRY_BYTES {
            // The entry is too large to have its trace in the same chunk. The next entry states it.
            self.lock.disarm();
            return self.ensure(own, words);
        }
        let is_stated = own.has_stated(trace);
        if is_stated && own.left >= words {
            return Ok(());
        }
        // The next chunk states it anew.
        let is_none = is_stated && trace.is_none();
        self.ensure(own, if is_none { words } else { most })?;
        own.state(trace);
        Ok(())
    }

    /// Ensures room for `words`.
    fn ensure(&self, own: &mut Own, words: usize) -> Result<(), NotRecorded> {
        if own.left >= words {
            Ok(())
        } else {
            self.switch(own, words)
        }
    }

    /// Makes the owner's next entry take the slow path, which states the thread's trace. Called by
    /// the owner.
    #[inline]
    pub(crate) fn note_other_trace(&self) {
        if self.lock.begin() {
            // SAFETY: within our turn, so there is no other reference (module invariant).
            unsafe { &mut *self.own.get() }.hide_room();
            self.lock.end();
        } else {
            self.lock.disarm(); // within an entry
        }
    }

    /// Leaves the current chunk and takes one with room for `words`.
    fn switch(&self, own: &mut Own, words: usize) -> Result<(), NotRecorded> {
        if words.saturating_mul(8) > MAX_ENTRY_BYTES {
            own.count(DropReason::Oversize);
            return Err(NotRecorded::Dropped(DropReason::Oversize));
        }
        let now = Timestamp::now();
        // The session is still open after `now`. So a chunk with this start time belongs to this
        // session; if the thread is suspended until the next one, the start time shows that it does
        // not belong to that.
        if own
            .home
            .as_ref()
            .is_none_or(|home| home.epoch != session_state::epoch_of(session_state::word()))
        {
            return Err(NotRecorded::Off);
        }
        let wished = own.wished_class(now);
        self.leave(own, now);
        let taken = own
            .take_chunk(wished, words)
            .and_then(|index| self.open(own, index, now));
        taken.map(|()| own.wish = wished).map_err(|reason| {
            own.count(reason);
            NotRecorded::Dropped(reason)
        })
    }

    fn open(&self, own: &mut Own, index: ChunkIndex, now: Timestamp) -> Result<(), DropReason> {
        own.open(index, now)?;
        if let Some(home) = &own.home {
            self.chunk.put(home.manager.tag(), index);
        }
        Ok(())
    }

    /// Hands the open chunk, if there is one, to the manager.
    fn leave(&self, own: &mut Own, now: Timestamp) {
        own.retract_trace();
        own.forget_room();
        if let (Some(home), Some(index)) = (own.home.as_ref(), self.chunk.take()) {
            // A chunk of an earlier session must be destroyed, not made ready in this one.
            let is_current = home.epoch == session_state::epoch_of(session_state::word());
            let pool = home.manager.pool();
            let ready = &home.manager.ready;
            if !is_current || !put_back(pool, ready, pool.layout(), index) {
                hand_over(&home.manager, home.row, index, now);
            }
        }
    }

    /// Releases the open chunk and the row of the session that the thread had joined.
    fn leave_session(&self, own: &mut Own, now: Timestamp) {
        self.leave(own, now);
        if let Some(home) = own.home.take() {
            home.leave(now);
            home.manager.work.notify();
        }
        // No state of the left session applies to the next.
        *own = Own {
            waiting: own.waiting.take(),
            ..Own::nowhere()
        };
    }

    /// Ends the thread's participation in the session for good. Called by the owner when its thread
    /// ends. Does nothing and returns false within an entry.
    pub(crate) fn close(&self) -> bool {
        if !self.lock.begin() {
            return false;
        }
        // SAFETY: within our turn, so there is no other reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        self.leave_session(own, Timestamp::now());
        // The turn never ends, so this recorder records nothing more.
        true
    }

    /// Whether the thread is within an entry. Called by the thread itself.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock.is_busy()
    }

    /// Runs `body` with the recorder's session, after joining it if necessary. Returns `None` if no
    /// session can be joined; a dropped entry has then been counted.
    pub(crate) fn with_home<T>(&self, body: impl FnOnce(&ThreadContext) -> T) -> Option<T> {
        if !self.lock.begin() {
            self.count_reentrant();
            return None;
        }
        let _turn = Turn(self);
        // SAFETY: within our turn, so there is no other reference (module invariant).
        let own = unsafe { &mut *self.own.get() };
        self.enter(own).ok()?;
        own.home.as_ref().map(body)
    }

    /// Discards the state kept under the thread's old name while there was no row for it.
    pub(crate) fn renamed(&self) {
        if self.lock.begin() {
            let _turn = Turn(self);
            // SAFETY: within our turn, so there is no other reference (module invariant).
            let own = unsafe { &mut *self.own.get() };
            own.waiting = None;
        }
    }

    /// Runs `body` with the chunk manager of the running session if the thread already records in
    /// it. `None` otherwise, also within an entry; the caller then uses the shared reference.
    #[inline]
    pub(crate) fn with_joined<T>(&self, body: impl FnOnce(&ChunkManager) -> T) -> Option<T> {
        if !self.lock.begin() {
            return None;
        }
        let _turn = Turn(self);
        if !self.lock.is_armed_for(session_state::word()) {
            return None;
        }
        // SAFETY: within our turn, so there is no other reference (module invariant).
        let own = unsafe { &*self.own.get() };
        own.home.as_ref().map(|home| body(&home.manager))
    }

    /// Takes the open chunk away from a thread that is not recording right now.
    ///
    /// Called with the manager's lock held, after `disarm` and a barrier on all threads. False if
    /// the owner is within an entry: then it keeps its chunk until its next switch.
    pub(crate) fn seize(&self, manager: &ChunkManager) -> bool {
        if !self.lock.is_idle() {
            return false;
        }
        let seen = self
            .chunk
            .observe(manager.tag())
            .filter(|seen| self.chunk.seize(*seen));
        let taken = seen.and_then(|seen| Some((seen.index, manager.pool().slot(seen.index)?)));
        if let Some((index, slot)) = taken {
            hand_over(manager, slot.thread(), index, Timestamp::now());
        }
        true
    }

    /// The owner's open chunk in this manager's pool.
    pub(crate) fn open_chunk(&self, manager: &ChunkManager) -> Option<SeenChunk> {
        self.chunk.observe(manager.tag())
    }

    /// Takes an open chunk, with its `committed` entries, from an owner that has not recorded since
    /// the chunk was seen. Recording goes on. The chunk's last entry was written before `done`.
    ///
    /// Called with the manager's lock held, after `disarm` and a barrier on all threads. The row is
    /// sealed first: an owner that finds its chunk gone begins the next one where this one ends.
    pub(crate) fn reclaim(
        &self,
        manager: &ChunkManager,
        seen: SeenChunk,
        committed: Commit,
        done: Timestamp,
    ) -> bool {
        let Some(slot) = manager
            .pool()
            .slot(seen.index)
            .filter(|_| self.lock.is_idle())
        else {
            return false;
        };
        let row = slot.thread();
        let end = slot.first_entry().wrapping_add(committed.entries());
        // If the owner still has the chunk, the value just read is the owner's, and not that of a
        // thread that opened the chunk later.
        if slot.committed() != committed || self.open_chunk(manager) != Some(seen) {
            return false;
        }
        if let Some(row) = manager.pool().thread_row(row) {
            row.seal_at_least(end);
        }
        let taken = self.chunk.seize(seen);
        if taken {
            // Do not seal again: the owner may have left further chunks since.
            slot.finish(done);
            manager.done.push(slot, seen.index);
        }
        taken
    }

    /// Runs `body` like a payload's serialisation.
    #[cfg(test)]
    pub(crate) fn within_an_entry(&self, body: impl FnOnce()) {
        assert!(self.lock.begin());
        let _turn = Turn(self);
        body();
    }

    /// Makes the owner's next entry take the slow path.
    pub(crate) fn disarm(&self) {
        self.lock.disarm();
    }

    #[cold]
    #[inline(never)]
    fn count_reentrant(&self) {
        super::local::count_in_process_row(DropReason::Reentrant);
    }
}

/// Makes a chunk without entries ready again; no other thread is notified. False if the chunk has
/// entries or no place is free: then it is unchanged.
pub(crate) fn put_back(
    slots: &impl Slots,
    ready: &ReadyChunks,
    layout: &Layout,
    index: ChunkIndex,
) -> bool {
    let empty = |slot: &&ChunkSlot| slot.committed().entries() == 0;
    let Some(slot) = slots.slot(index).filter(empty) else {
        return false;
    };
    let opening = Opening {
        thread: slot.thread(),
        start: slot.start_time(),
        first_entry: slot.first_entry(),
    };
    slot.close();
    let is_back = ready.offer(class_of(layout, slot.bytes()), index).is_ok();
    if !is_back {
        slot.open(opening);
    }
    is_back
}

/// Ends the owner's turn, also when a payload's serialisation panics.
struct Turn<'a>(&'a Recorder);

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.lock.end();
    }
}
