//! A chunk that is taken before it is needed, for the entries that a handler of a crash writes.
//!
//! Made and released by `marker::crash` on a thread of the profiler; written in a signal handler.
//! The chunk has a row of its own, because the handler may have interrupted the owner of any other
//! chunk. Invariants: only the owner of the value writes; [`ReservedChunk::add`] takes no lock and
//! allocates nothing.

use std::sync::Arc;

use super::active_session;
use super::writer::{
    Front, Own, PayloadBuffer, RowOwnership, ThreadContext, hand_over, largest_class,
};
use crate::entry::is_foreign;
use crate::ids::{ChunkIndex, ThreadId, ThreadIndex};
use crate::manager::chunks::class_of;
use crate::manager::maintenance;
use crate::pool::live::{NewThread, RowUse};
use crate::pool::slot::Commit;
use crate::time::Timestamp;

/// An open chunk without a thread.
#[derive(Debug)]
pub(crate) struct ReservedChunk {
    own: Own,
    context: ThreadContext,
    index: ChunkIndex,
    /// The row of a thread that had none.
    extra: Option<(ThreadIndex, RowUse)>,
}

impl ReservedChunk {
    /// Takes a chunk of at most `bytes` from the running session, with a row of this name. `None`
    /// without a session, and if there is no room for it.
    pub(crate) fn take(name: &str, bytes: u64) -> Option<Self> {
        let session = active_session::current()?;
        if session.filter.excludes_process() {
            return None;
        }
        let manager = &session.manager;
        let now = Timestamp::now();
        // No thread has the number 0.
        let thread = NewThread {
            tid: ThreadId::new(0),
            is_main: false,
            name,
            at: now,
        };
        let (row, tenure) = manager.threads.add(manager.pool(), thread)?;
        let context = ThreadContext {
            manager: Arc::clone(manager),
            epoch: session.epoch,
            row,
            selected: true,
            is_named_by_system: false,
            tenure: RowOwnership::Own(tenure),
            fast_fill: session.fast_fill,
        };
        let wished = class_of(manager.pool().layout(), bytes);
        let largest = wished.min(largest_class(manager));
        let chunk = (0..=largest)
            .rev()
            .find_map(|class| maintenance::acquire(manager, class).ok());
        let mut own = Own {
            home: Some(context.clone()),
            ..Own::nowhere()
        };
        let opened = chunk.filter(|index| own.open(*index, now).is_ok());
        let Some(index) = opened else {
            context.leave(now);
            return None;
        };
        Some(Self {
            own,
            context,
            index,
            extra: None,
        })
    }

    /// The session of the chunk.
    pub(crate) const fn epoch(&self) -> u64 {
        self.context.epoch
    }

    /// The chunk manager of the session.
    pub(crate) fn manager(&self) -> &crate::manager::ChunkManager {
        &self.context.manager
    }

    /// Adds an entry with a payload that `encode` writes. False if there is no room for it. For
    /// signal handlers.
    pub(crate) fn add<F>(&mut self, front: Front, mut encode: F) -> bool
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
    {
        if is_foreign(front.head) {
            self.own.mark_foreign();
        }
        self.own.try_tail(front, "", &mut encode) == Ok(true)
    }

    /// Makes sure that a thread has a row, which entries for it belong to. Ends such a row of
    /// another thread. For signal handlers.
    pub(crate) fn ensure_row(&mut self, thread: NewThread<'_>) {
        let at = thread.at;
        let manager = Arc::clone(&self.context.manager);
        let mut alive = manager.threads.alive(manager.pool());
        if !alive.any(|(_, row)| row.tid == thread.tid) {
            self.end_extra_row(at);
            // Without a row, the entries stay in the row of the chunk.
            self.extra = manager.threads.add(manager.pool(), thread);
        }
    }

    fn end_extra_row(&mut self, at: Timestamp) {
        let manager = &self.context.manager;
        if let Some((index, own)) = self.extra.take() {
            manager.threads.end(manager.pool(), index, own, at);
        }
    }

    /// Evicts the entries of the chunk, which then has room again. For signal handlers.
    pub(crate) fn restart(&mut self, now: Timestamp) {
        let pool = self.context.manager.pool();
        let (Some(slot), Some(row)) = (pool.slot(self.index), self.context.row()) else {
            return;
        };
        let committed = slot.committed();
        if committed == Commit::default() {
            return;
        }
        slot.close();
        row.count_evicted(committed.entries(), committed.bytes());
        row.seal(slot.first_entry().wrapping_add(committed.entries()));
        let _ = self.own.open(self.index, now); // it was open before
    }

    /// Gives the chunk with its entries to the manager, and releases the row.
    pub(crate) fn release(mut self) {
        let now = Timestamp::now();
        self.end_extra_row(now);
        hand_over(&self.context.manager, self.context.row, self.index, now);
        self.context.leave(now);
        self.context.manager.work.notify();
    }
}
