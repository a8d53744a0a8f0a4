//! The chunk manager of one process: hands out chunks, lists released chunks, destroys the oldest
//! first.
//!
//! Recording threads touch only its lock-free ends ([`ready`], [`full_chunks`]) and, when no chunk
//! is ready, try its lock for a short time. All other work happens on the maintenance thread
//! ([`maintenance`]) or on the control thread that executes the parent's commands.
//!
//! Invariants: the pool never holds more than the allowance ([`crate::pool::budget`]); a chunk is
//! in exactly one state (free, ready, open, done, released); the oldest released chunk is destroyed
//! first; the entries of a chunk are counted in its thread's row before it is destroyed.

pub(crate) mod chunks;
pub(crate) mod event;
pub(crate) mod full_chunks;
pub(crate) mod maintenance;
pub(crate) mod ready;
pub(crate) mod rows;
mod space;
pub(crate) mod threads;
pub(crate) mod update;

use std::sync::{Mutex, MutexGuard, TryLockError};

use crate::ids::{ByteLimit, ChunkIndex};
use crate::pool::Pool;
use crate::pool::slot::ChunkSlot;
use crate::pool::tag::next_pool_tag;
use crate::sync::AtomicU64;
use crate::time::Timestamp;
use chunks::{Chunks, give_pages_back};
use event::Event;
use full_chunks::{FullChunks, Slots};
use ready::ReadyChunks;
use rows::Rows;
use threads::ThreadRows;
use update::ManagerUpdate;

/// Receives every update, in order. Must not call the manager.
pub type Listener = Box<dyn FnMut(ManagerUpdate) + Send>;

/// The state behind the lock.
#[derive(Debug)]
pub(crate) struct ChunkManagerState {
    pub(crate) chunks: Chunks,
    pub(crate) rows: Rows,
}

/// The chunk manager. Shared by all threads of the process.
pub(crate) struct ChunkManager {
    pool: Pool,
    tag: u64,
    pub(crate) ready: ReadyChunks,
    pub(crate) done: FullChunks,
    pub(crate) threads: ThreadRows,
    pub(crate) work: Event,
    /// How often a recording thread found no chunk ready and had to ask for one.
    pub(crate) not_ready: AtomicU64,
    state: Mutex<ChunkManagerState>,
    listener: Mutex<Option<Listener>>,
}

impl std::fmt::Debug for ChunkManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChunkManager")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl Slots for Pool {
    fn slot(&self, index: ChunkIndex) -> Option<&ChunkSlot> {
        Self::slot(self, index)
    }
}

impl ChunkManager {
    pub(crate) fn new(pool: Pool) -> Self {
        let state = ChunkManagerState {
            chunks: Chunks::new(pool.layout()),
            rows: Rows::new(pool.layout()),
        };
        let threads = ThreadRows::new(pool.layout().page);
        Self {
            pool,
            tag: next_pool_tag(),
            ready: ReadyChunks::new(),
            done: FullChunks::new(),
            threads,
            work: Event::new(),
            not_ready: AtomicU64::new(0),
            state: Mutex::new(state),
            listener: Mutex::new(None),
        }
    }

    /// Whether the maintenance thread waits for work.
    pub(crate) fn is_maintenance_idle(&self) -> bool {
        self.work.is_waited_for()
    }

    pub(crate) const fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Distinguishes this pool from earlier pools of this process.
    pub(crate) const fn tag(&self) -> u64 {
        self.tag
    }

    /// Locks the state and waits for the lock: for the profiler's own threads and rare calls.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ChunkManagerState> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locks the state if the lock is free: for recording threads.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ChunkManagerState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sets the bytes that the process may hold, and destroys chunks until it holds no more. Sends
    /// an update if the allowance or the chunks changed.
    pub(crate) fn set_allowance(&self, allowance: ByteLimit) {
        let changed = self.pool.budget().set_allowance(allowance);
        let (used, allowed) = self.pool.budget().used_and_allowed();
        if !changed && used <= allowed {
            return;
        }
        self.obey_allowance();
        self.report(changed);
        self.work.notify();
    }

    /// Destroys chunks until no more is held than allowed.
    pub(crate) fn obey_allowance(&self) {
        self.lock().chunks.collect_done(self);
        self.destroy_all(|chunks| chunks.take_excess(self));
    }

    /// Destroys the chunks that `next` removes from the lists, one by one. Pages are returned to
    /// the system without the lock, which recording threads need, on chunks that no other thread
    /// can reach.
    pub(crate) fn destroy_all(&self, mut next: impl FnMut(&mut Chunks) -> Option<ChunkIndex>) {
        loop {
            let Some(index) = next(&mut self.lock().chunks) else {
                return;
            };
            if !self.destroy(index) {
                return; // destroying more would free nothing
            }
        }
    }

    /// Destroys a chunk that no thread holds. False if the system does not take its pages.
    pub(crate) fn destroy(&self, index: ChunkIndex) -> bool {
        let freed = give_pages_back(self, index);
        self.lock().chunks.account_destroyed(self, index, freed)
    }

    /// Destroys released chunks that were done at or before `at`. Always followed by an update.
    pub(crate) fn destroy_at_or_before(&self, at: Timestamp) {
        self.lock().chunks.collect_done(self);
        self.destroy_all(|chunks| chunks.take_done_at_or_before(self, at));
        self.report(true);
    }

    /// Replaces the listener. The old one receives `Final`; the new one receives at once the bytes
    /// held and a list of every released chunk.
    pub(crate) fn set_listener(&self, listener: Option<Listener>) {
        let mut current = self
            .listener
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(mut old) = current.take() {
            old(ManagerUpdate::Final);
        }
        *current = listener;
        if let Some(new) = current.as_mut() {
            let mut state = self.lock();
            state.chunks.collect_done(self);
            let update = state.chunks.full_update(self);
            drop(state);
            new(ManagerUpdate::Changed(update));
        }
    }

    /// Reports the changes since the last report to the listener; with `always`, also when there
    /// are none.
    pub(crate) fn report(&self, always: bool) {
        // The listener's lock is taken first, so that updates arrive in the order in which they are
        // made.
        let mut listener = self
            .listener
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(listener) = listener.as_mut() else {
            return;
        };
        let update = self.lock().chunks.next_update(self, always);
        if let Some(update) = update {
            listener(ManagerUpdate::Changed(update));
        }
    }
}

// Needs a system that really takes memory back.
#[cfg(all(test, target_os = "linux", not(any(loom, profiler_portable))))]
mod tests;
