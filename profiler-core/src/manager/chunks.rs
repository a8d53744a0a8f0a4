//! The accounting of all chunks: the state of each, which one is oldest, and which one is destroyed
//! next.
//!
//! Called with the manager's lock held. Sizes in bytes are whole pages. "Released" means: full or
//! left by its thread, complete, and the next to be destroyed when memory is needed, oldest first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::ChunkManager;
use super::space::ChunkSpace;
use super::update::{ReleasedChunk, Update};
use crate::ids::{ByteLimit, ChunkIndex};
use crate::pool::Words;
use crate::pool::layout::{Extent, Layout, Region, SIZE_CLASSES, SLOT_BYTES};
use crate::time::Timestamp;

/// Why no chunk is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoChunk {
    /// The allowance is used up and nothing released is left to destroy.
    NoBudget,
    /// There is budget but no block of that size in one piece.
    NoSpace,
}

/// Chunks of this process, except those that threads or the ready slots hold.
#[derive(Debug)]
pub(crate) struct Chunks {
    space: ChunkSpace,
    numbers: Numbers,
    /// Released chunks by age; the value is the bytes.
    released: BTreeMap<(Timestamp, ChunkIndex), u64>,
    released_bytes: u64,
    /// Done time of the youngest chunk that was ever destroyed.
    destroyed: Timestamp,
    /// Chunks released since the last update that still exist, oldest first; the front is destroyed
    /// first.
    newly_released: VecDeque<ReleasedChunk>,
    /// Released chunks per thread row, and rows whose last chunk has been destroyed since the last
    /// sweep.
    per_row: BTreeMap<u32, u32>,
    emptied: Vec<u32>,
    /// Done chunks without entries: charged, and about to be destroyed.
    useless: Vec<ChunkIndex>,
    /// Blocks whose pages could not be returned: charged, and reused as they are.
    kept: Vec<Vec<ChunkIndex>>,
    changed: bool,
    /// Chunks opened before this instant belong to an earlier session.
    session_start: Timestamp,
    /// Bytes that were held when a file system was found full; raised gradually to retry.
    room: u64,
}

impl Chunks {
    pub(crate) fn new(layout: &Layout) -> Self {
        let pages = layout.region(Region::Chunks).len / layout.page;
        Self {
            space: ChunkSpace::new(pages),
            numbers: Numbers::default(),
            released: BTreeMap::new(),
            released_bytes: 0,
            destroyed: Timestamp::ZERO,
            newly_released: VecDeque::new(),
            per_row: BTreeMap::new(),
            emptied: Vec::new(),
            useless: Vec::new(),
            kept: (0..SIZE_CLASSES).map(|_| Vec::new()).collect(),
            changed: false,
            session_start: Timestamp::ZERO,
            room: u64::MAX,
        }
    }

    /// Called when a session starts: chunks that threads still hold from before will be destroyed,
    /// not listed.
    pub(crate) fn begin_session(&mut self, now: Timestamp) {
        self.session_start = now;
        self.newly_released.clear();
    }

    /// Returns a chunk of this class, or the oldest released chunk, which the caller must destroy
    /// before it retries. Notes once that more was requested than allowed.
    pub(crate) fn acquire(
        &mut self,
        manager: &ChunkManager,
        class: u8,
        wanted: &mut bool,
    ) -> Result<Acquired, NoChunk> {
        match self.take_free(manager, class) {
            Err(NoChunk::NoBudget) => {}
            other => return other.map(Acquired::Chunk),
        }
        if !std::mem::replace(wanted, true) {
            manager
                .pool()
                .budget()
                .want(manager.pool().layout().class_bytes(class));
        }
        let (oldest, bytes) = self.evict_oldest(manager).ok_or(NoChunk::NoBudget)?;
        let fits = bytes == manager.pool().layout().class_bytes(class) && !exceeds(manager);
        // Recycled: the same memory, already made ready.
        Ok(if fits {
            Acquired::Chunk(oldest)
        } else {
            Acquired::Destroy(oldest)
        })
    }

    /// Returns a chunk for a recording thread, of the largest class available from `wished` down to
    /// `least`. Makes no system call: without free budget the oldest released chunk is recycled, if
    /// it is large enough. But in a file a free chunk must be allocated first: one call, to avoid
    /// the loss of old data.
    pub(crate) fn acquire_at_once(
        &mut self,
        manager: &ChunkManager,
        least: u8,
        wished: u8,
    ) -> Result<ChunkIndex, NoChunk> {
        let free = (least..=wished)
            .rev()
            .find_map(|class| self.take_free(manager, class).ok());
        if let Some(index) = free {
            return Ok(index);
        }
        manager
            .pool()
            .budget()
            .want(manager.pool().layout().class_bytes(wished));
        let enough = manager.pool().layout().class_bytes(least);
        let oldest = self.released.first_key_value().map(|(_, bytes)| *bytes);
        if oldest.is_none_or(|bytes| bytes < enough) || exceeds(manager) {
            return Err(NoChunk::NoBudget);
        }
        self.evict_oldest(manager)
            .map(|(index, _)| index)
            .ok_or(NoChunk::NoBudget)
    }

    /// A chunk from free budget and free space, not yet populated.
    pub(crate) fn take_free(
        &mut self,
        manager: &ChunkManager,
        class: u8,
    ) -> Result<ChunkIndex, NoChunk> {
        if let Some(kept) = self.kept.get_mut(usize::from(class)).and_then(Vec::pop) {
            return Ok(kept);
        }
        let pool = manager.pool();
        let bytes = pool.layout().class_bytes(class);
        let index = self.numbers.take(manager).ok_or(NoChunk::NoBudget)?;
        if !pool.budget().take(bytes, metadata_reserve(manager)) {
            self.numbers.put(index);
            return Err(NoChunk::NoBudget);
        }
        let described = self.describe_block(manager, index, class);
        if described.is_err() {
            pool.budget().give_back(bytes);
            self.numbers.put(index);
        }
        described.map(|()| index)
    }

    /// Finds addresses for a chunk, and in a file allocates the space behind them. A full file
    /// system is treated like a used-up allowance: this process's own oldest data is destroyed.
    fn describe_block(
        &mut self,
        manager: &ChunkManager,
        index: ChunkIndex,
        class: u8,
    ) -> Result<(), NoChunk> {
        let pool = manager.pool();
        let block = self.space.take(class).ok_or(NoChunk::NoSpace)?;
        let offset = pool.layout().region(Region::Chunks).offset + block * pool.layout().page;
        let extent = Extent {
            offset,
            len: pool.layout().class_bytes(class),
        };
        if !pool.map().secure(extent) {
            // Pages allocated before the space ran out are not charged, so they must be released.
            let _ = pool.map().release(extent);
            self.space.put(block, class);
            self.room = pool
                .budget()
                .used_and_allowed()
                .0
                .saturating_sub(extent.len);
            return Err(NoChunk::NoBudget);
        }
        let slot = pool.slot(index).ok_or(NoChunk::NoSpace)?;
        slot.describe(offset, u32::try_from(extent.len).unwrap_or(u32::MAX));
        Ok(())
    }

    /// The bytes that the pool may hold as far as the file system has room: more than any allowance
    /// until the file system was found full. Without this limit, making chunks ready up to the
    /// allowance would destroy everything recorded there.
    pub(crate) const fn room(&mut self) -> u64 {
        let room = self.room;
        self.room = room.saturating_add(room / 16);
        room
    }

    /// Lists the chunks that recording threads have left since the last call.
    pub(crate) fn collect_done(&mut self, manager: &ChunkManager) {
        self.collect_done_quietly(manager);
        while let Some(index) = self.useless.pop() {
            self.destroy(manager, index);
        }
    }

    /// Like `collect_done`, but keeps chunks without entries for the next call of `collect_done`.
    pub(crate) fn collect_done_quietly(&mut self, manager: &ChunkManager) {
        for index in manager.done.take_all(manager.pool()) {
            self.release(manager, index);
        }
    }

    fn release(&mut self, manager: &ChunkManager, index: ChunkIndex) {
        let Some(slot) = manager.pool().slot(index) else {
            return;
        };
        self.changed = true;
        if slot.committed().entries() == 0 || slot.start_time() < self.session_start {
            slot.close();
            self.useless.push(index);
            return;
        }
        // A thread may have been delayed between leaving the chunk and handing it over. If the
        // chunk were listed as older than chunks destroyed meanwhile, a receiver would believe that
        // those still exist: it treats all chunks older than the oldest one as destroyed.
        let done = slot.done_time().max(self.destroyed.next());
        let bytes = slot.bytes();
        self.released.insert((done, index), bytes);
        self.released_bytes += bytes;
        *self.per_row.entry(slot.thread().get()).or_default() += 1;
        let at = self
            .newly_released
            .partition_point(|chunk| chunk.done <= done);
        self.newly_released
            .insert(at, ReleasedChunk { done, bytes });
    }

    /// Removes the oldest released chunk from the lists and counts its entries as evicted. Its
    /// memory stays charged; the caller recycles or destroys it.
    fn evict_oldest(&mut self, manager: &ChunkManager) -> Option<(ChunkIndex, u64)> {
        let ((done, index), bytes) = self.released.pop_first()?;
        self.released_bytes -= bytes;
        self.destroyed = self.destroyed.max(done);
        self.changed = true;
        let listed = |chunk: &ReleasedChunk| chunk.done == done && chunk.bytes == bytes;
        if let Some(at) = self.newly_released.iter().position(listed) {
            self.newly_released.remove(at);
        }
        let slot = manager.pool().slot(index)?;
        if let Some(row) = manager.pool().thread_row(slot.thread()) {
            row.count_evicted(slot.committed().entries(), slot.committed().bytes());
        }
        self.forget_in_row(slot.thread().get());
        slot.close();
        Some((index, bytes))
    }

    /// Returns the memory of a chunk that no thread holds to the system and to the allowance. False
    /// if the system does not take it: then it stays charged, and is used again.
    pub(crate) fn destroy(&mut self, manager: &ChunkManager, index: ChunkIndex) -> bool {
        let freed = give_pages_back(manager, index);
        self.account_destroyed(manager, index, freed)
    }

    /// The second half of [`Self::destroy`], for callers that did the first half,
    /// [`give_pages_back`], without the lock.
    pub(crate) fn account_destroyed(
        &mut self,
        manager: &ChunkManager,
        index: ChunkIndex,
        freed: bool,
    ) -> bool {
        let pool = manager.pool();
        let Some(slot) = pool.slot(index) else {
            return false;
        };
        let extent = pool.chunk_extent(slot);
        // The slot lies in shared memory, which a stray write of the host may have changed.
        let Some(inside) = extent
            .offset
            .checked_sub(pool.layout().region(Region::Chunks).offset)
        else {
            return false;
        };
        let class = class_of(pool.layout(), extent.len);
        if !freed {
            if let Some(kept) = self.kept.get_mut(usize::from(class)) {
                kept.push(index);
            }
            return false;
        }
        let page = pool.layout().page;
        self.space.put(inside / page, class);
        pool.budget().give_back(extent.len);
        self.numbers.put(index);
        true
    }

    /// The next chunk to be destroyed while more is held than allowed: first ready chunks, which
    /// have no entries, then the oldest released chunk.
    pub(crate) fn take_excess(&mut self, manager: &ChunkManager) -> Option<ChunkIndex> {
        if !exceeds(manager) {
            return None;
        }
        let ready = (0..SIZE_CLASSES)
            .rev()
            .find_map(|class| manager.ready.take(class));
        self.changed |= ready.is_some();
        ready.or_else(|| self.evict_oldest(manager).map(|(index, _)| index))
    }

    /// The next chunk to be destroyed among those done at or before `at`.
    pub(crate) fn take_done_at_or_before(
        &mut self,
        manager: &ChunkManager,
        at: Timestamp,
    ) -> Option<ChunkIndex> {
        self.oldest_done().filter(|oldest| *oldest <= at)?;
        self.evict_oldest(manager).map(|(index, _)| index)
    }

    /// Notes a change that must be reported.
    pub(crate) const fn note_change(&mut self) {
        self.changed = true;
    }

    /// Destroys every chunk that no thread holds; the session is over.
    pub(crate) fn clear(&mut self, manager: &ChunkManager) {
        self.collect_done(manager);
        while let Some((index, _)) = self.evict_oldest(manager) {
            self.destroy(manager, index);
        }
        for index in (0..SIZE_CLASSES).flat_map(|class| manager.ready.drain(class)) {
            self.destroy(manager, index);
        }
    }

    pub(crate) fn oldest_done(&self) -> Option<Timestamp> {
        self.released.first_key_value().map(|((done, _), _)| *done)
    }

    fn forget_in_row(&mut self, row: u32) {
        if let Some(count) = self.per_row.get_mut(&row) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.per_row.remove(&row);
                self.emptied.push(row);
            }
        }
    }

    /// Whether released chunks still refer to a thread row.
    pub(crate) fn row_is_used(&self, row: u32) -> bool {
        self.per_row.contains_key(&row)
    }

    /// Takes the rows whose last chunk has been destroyed since the last call.
    pub(crate) fn take_emptied(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.emptied)
    }

    /// A report that lists every released chunk, for a new listener.
    pub(crate) fn full_update(&mut self, manager: &ChunkManager) -> Update {
        let all = self
            .released
            .iter()
            .map(|((done, _), bytes)| ReleasedChunk {
                done: *done,
                bytes: *bytes,
            });
        self.newly_released = all.collect();
        self.make_update(manager)
    }

    /// The changes since the last report, or nothing.
    pub(crate) fn next_update(&mut self, manager: &ChunkManager, always: bool) -> Option<Update> {
        (always || self.changed).then(|| self.make_update(manager))
    }

    fn make_update(&mut self, manager: &ChunkManager) -> Update {
        let budget = manager.pool().budget();
        let (used, allowed) = budget.used_and_allowed();
        self.changed = false;
        let mut update = Update {
            unreleased_bytes: used.saturating_sub(self.released_bytes),
            released_bytes: self.released_bytes,
            oldest_done: self.oldest_done(),
            newly_released: std::mem::take(&mut self.newly_released).into(),
            wanted_bytes: budget.take_wanted(),
            allowance: ByteLimit::new(allowed),
        };
        update.limit_list();
        update
    }
}

/// Result of [`Chunks::acquire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// A chunk.
    Chunk(ChunkIndex),
    /// Nothing yet; the caller destroys this chunk and retries.
    Destroy(ChunkIndex),
}

/// Returns the pages of a chunk that no other thread sees to the system. Needs no lock. False if
/// the system does not take them.
pub(crate) fn give_pages_back(manager: &ChunkManager, index: ChunkIndex) -> bool {
    let pool = manager.pool();
    pool.slot(index)
        .is_some_and(|slot| pool.map().release(pool.chunk_extent(slot)).is_ok())
}

/// Whether the pool holds more than allowed.
fn exceeds(manager: &ChunkManager) -> bool {
    let (used, allowed) = manager.pool().budget().used_and_allowed();
    used > allowed
}

/// Bytes reserved for names and rows, which chunks may not take.
fn metadata_reserve(manager: &ChunkManager) -> u64 {
    let (_, allowed) = manager.pool().budget().used_and_allowed();
    let page = manager.pool().layout().page;
    if allowed >= 16 * page { 2 * page } else { 0 }
}

/// Size class of a chunk of `bytes`.
pub(crate) fn class_of(layout: &Layout, bytes: u64) -> u8 {
    u8::try_from((bytes / layout.page).max(1).ilog2()).unwrap_or(0)
}

/// Slot numbers: lowest first, so that few pages of the directory are touched.
#[derive(Debug, Default)]
struct Numbers {
    free: BTreeSet<u32>,
    frontier: u32,
    charged: u64,
}

impl Numbers {
    fn take(&mut self, manager: &ChunkManager) -> Option<ChunkIndex> {
        if let Some(number) = self.free.pop_first() {
            return Some(ChunkIndex::new(number));
        }
        let pool = manager.pool();
        let end = (u64::from(self.frontier) + 1) * SLOT_BYTES;
        if end > pool.layout().region(Region::Directory).len {
            return None;
        }
        if end > self.charged {
            if !pool.take_page(Region::Directory, self.charged) {
                return None;
            }
            self.charged += pool.layout().page;
        }
        self.frontier += 1;
        Some(ChunkIndex::new(self.frontier - 1))
    }

    fn put(&mut self, index: ChunkIndex) {
        self.free.insert(index.get());
    }
}
