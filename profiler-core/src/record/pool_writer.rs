//! Writes entries into the pool of a process that does not write into it itself.
//!
//! Used for observed processes: the session reads what they leave in their shared files, and writes
//! it here, so that every reader of pools finds it. Invariants: this process has made the pool, and
//! only the owner of the `PoolWriter` adds entries to it, and no other process can write to it; the
//! entries have the same form as those of a recorder, in chunks of the main thread's row; the pool obeys its allowance like every
//! other.
//!
//! There is no maintenance thread: the owner calls [`PoolWriter::maintain`] from time to time.

#![allow(unsafe_code)]

use std::sync::Arc;

use super::writer::{Front, Own, PayloadBuffer, RowOwnership, ThreadContext, hand_over};
use crate::entry::{MAX_ENTRY_BYTES, is_foreign};
use crate::entry_counts::DropReason;
use crate::ids::{
    ByteLimit, ChunkIndex, CounterIndex, DefinitionId, ProcessId, ProcessStart, ThreadId,
    ThreadIndex,
};
use crate::manager::rows::NewThread;
use crate::manager::update::ManagerUpdate;
use crate::manager::{ChunkManager, maintenance};
use crate::pool::definitions::{CounterDefinition, DefineError, Definition};
use crate::pool::layout::{Life, header as at};
use crate::pool::live::RowUse;
use crate::pool::slot::Commit;
use crate::pool::{AttachError, Pool};
use crate::time::{Anchor, TimeConverter, Timestamp};
use profiler_sys::OwnFile;

/// A chunk that fills within this time calls for a larger one.
const FAST_FILL_NS: u64 = 50_000_000;

/// Why a process has no pool writer.
#[derive(Debug, thiserror::Error)]
pub enum PoolWriterError {
    /// The pool could not be taken.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The allowance is smaller than the tables.
    #[error("an allowance of {0} bytes is too small to record anything")]
    NoBudget(ByteLimit),
}

/// The process whose pool it is.
#[derive(Clone, Copy, Debug)]
pub struct PoolProcess {
    /// Its number.
    pub pid: ProcessId,
    /// Distinguishes it from other processes with the same number.
    pub start: ProcessStart,
    /// When it began.
    pub began: Timestamp,
}

/// A thread of the process, as the pool knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolThread {
    row: ThreadIndex,
    own: RowUse,
}

/// The only writer of a pool.
#[derive(Debug)]
pub struct PoolWriter {
    manager: Arc<ChunkManager>,
    own: Own,
    chunk: Option<ChunkIndex>,
    clock: TimeConverter,
}

// SAFETY: `own` points into the pool that `manager` keeps mapped, and only through a unique
// reference to this writer.
unsafe impl Send for PoolWriter {}

impl PoolWriter {
    /// Takes a new pool for the process.
    ///
    /// # Errors
    /// If the file is not a new pool, or its allowance is too small.
    pub fn new(file: impl Into<OwnFile>, process: PoolProcess) -> Result<Self, PoolWriterError> {
        let (pool, header) = Pool::attach_for(file, process.pid, process.start)?;
        let manager = Arc::new(ChunkManager::new(pool));
        let main = NewThread {
            tid: ThreadId::new(u64::from(process.pid.get())),
            is_main: true,
            name: "GeckoMain",
            at: process.began,
        };
        let no_budget = PoolWriterError::NoBudget(header.allowance);
        let taken = {
            let mut state = manager.lock();
            state.chunks.begin_session(process.began);
            let row = state.rows.begin_session(&manager, main);
            row.and_then(|row| Some((row, manager.pool().thread_row(row)?.take_kept()?)))
        };
        let Some((row, kept)) = taken else {
            return Err(no_budget);
        };
        let clock = manager.pool().clock().converter(Anchor::take());
        manager
            .pool()
            .set_header(at::RECORDING_START, process.began.raw());
        manager.pool().set_header(at::EPOCH, 1);
        let home = ThreadContext {
            manager: Arc::clone(&manager),
            epoch: 1,
            row,
            selected: true,
            is_named_by_system: false,
            tenure: RowOwnership::Kept(kept),
            fast_fill: clock.ticks_in(FAST_FILL_NS),
        };
        let own = Own {
            home: Some(home),
            ..Own::nowhere()
        };
        let writer = Self {
            manager,
            own,
            chunk: None,
            clock,
        };
        writer.maintain();
        Ok(writer)
    }

    /// Makes the next chunks ready, and destroys what exceeds the allowance.
    pub fn maintain(&self) {
        maintenance::pass(&self.manager, None);
    }

    /// Sets the bytes that the pool may hold; destroys its oldest chunks until it holds no more.
    pub fn set_allowance(&self, allowance: ByteLimit) {
        self.manager.set_allowance(allowance);
    }

    /// Destroys released chunks that were done at or before `at`. The listener always receives an
    /// update afterwards.
    pub fn destroy_released_chunks_at_or_before(&self, at: Timestamp) {
        self.manager.destroy_at_or_before(at);
    }

    /// Sets the listener for every change of the chunks. It is called by the functions of this
    /// writer.
    pub fn set_chunk_listener(&self, listener: impl FnMut(ManagerUpdate) + Send + 'static) {
        self.manager.set_listener(Some(Box::new(listener)));
    }

    /// Adds a definition.
    ///
    /// # Errors
    /// If there is no room for it.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn define(&self, definition: &Definition) -> Result<DefinitionId, DefineError> {
        self.manager.pool().define(definition)
    }

    /// Records a fact about the process, which readers show with its verdict. Left out without room
    /// for it; the profile then reports that definitions are missing.
    pub fn add_notice(&self, text: String) {
        let _ = self.manager.pool().define(&Definition::Notice { text });
    }

    /// The tag of the pool.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn tag(&self) -> u64 {
        self.manager.tag()
    }

    /// Adds a thread. `None` if there is no row left for it; its samples are then shown without its
    /// name.
    pub fn add_thread(&self, tid: ThreadId, name: &str, at: Timestamp) -> Option<PoolThread> {
        let thread = NewThread {
            tid,
            is_main: false,
            name,
            at,
        };
        let pool = self.manager.pool();
        let (row, own) = self.manager.threads.add(pool, thread)?;
        self.manager.lock().rows.hold(row);
        Some(PoolThread { row, own })
    }

    /// Gives a thread another name.
    pub fn rename_thread(&self, thread: PoolThread, name: &str) {
        if let Some(row) = self.manager.pool().thread_row(thread.row) {
            row.rename(name);
        }
    }

    /// Notes that a thread has ended. Its row stays until [`Self::forget_thread`].
    pub fn end_thread(&self, thread: PoolThread, at: Timestamp) {
        let threads = &self.manager.threads;
        threads.end(self.manager.pool(), thread.row, thread.own, at);
    }

    /// Frees the row of an ended thread: its samples are shown without its name from now on.
    pub fn forget_thread(&self, thread: PoolThread) {
        let state = &mut *self.manager.lock();
        state.rows.let_go(&self.manager, &state.chunks, thread.row);
    }

    /// Makes a counter. `None` without room for it.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn add_counter(
        &self,
        (name, category, description): (&str, &str, &str),
    ) -> Option<CounterIndex> {
        let mut state = self.manager.lock();
        let cell = state.rows.add_counter(&self.manager)?;
        let definition = Definition::Counter(CounterDefinition {
            cell,
            name: name.to_owned(),
            category: category.to_owned(),
            description: description.to_owned(),
        });
        let id = self.manager.pool().define(&definition).ok()?;
        self.manager.pool().counter(cell)?.publish(id);
        Some(cell)
    }

    /// Sets a counter that [`Self::add_counter`] has made; a value that it has is no change.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn set_counter(&self, counter: CounterIndex, value: i64) {
        let cell = self.manager.pool().counter(counter);
        if let Some(cell) = cell.filter(|cell| cell.get() != value) {
            cell.set(value);
        }
    }

    /// The chunks and the rows of the pool.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn manager(&self) -> &ChunkManager {
        &self.manager
    }

    /// A duration in units of timestamps.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn ticks_in(&self, ns: u64) -> u64 {
        self.clock.ticks_in(ns)
    }

    /// Counts an entry that was not recorded.
    pub fn count_drop(&self, reason: DropReason) {
        self.own.count(reason);
    }

    /// Notes that the process has ended: nothing more is recorded. `in_order` if it has not been
    /// killed.
    pub fn close(mut self, in_order: bool) {
        self.leave(Timestamp::now());
        self.manager.lock().chunks.collect_done(&self.manager);
        if in_order {
            self.manager
                .pool()
                .set_header(at::LIFE, Life::Closed as u64);
        }
        self.manager.report(true);
        self.manager.set_listener(None);
    }

    /// Adds an entry with a payload that `encode` writes, as a recorder does. False if it was
    /// dropped, which is counted.
    pub(crate) fn with_tail<F>(&mut self, front: Front, mut encode: F) -> bool
    where
        F: FnMut(PayloadBuffer<'_>) -> Result<Option<usize>, ()>,
    {
        let mut words = Front::words_with("");
        loop {
            if self.own.left < words && !self.switch(words) {
                return false;
            }
            if is_foreign(front.head) {
                self.own.mark_foreign();
            }
            match self.own.try_tail(front.copied(), "", &mut encode) {
                Ok(true) => return true,
                // The chunk has too little room; an empty one may be too small.
                Ok(false) if self.own.commit == Commit::default() => {
                    words = self.own.larger_words()
                }
                Ok(false) => words = self.own.left + 1,
                Err(()) => {
                    self.own.count(DropReason::Unencodable);
                    return false;
                }
            }
        }
    }

    /// Creates a row with this name and without a thread, and calls `write`, whose entries are in
    /// chunks of that row. False if there is no row, or if `write` returns false.
    #[cfg_attr(profiler_portable, allow(dead_code))] // no other processes on these systems
    pub(crate) fn in_row_of(
        &mut self,
        name: &str,
        at: Timestamp,
        write: impl FnOnce(&mut Self) -> bool,
    ) -> bool {
        let no_thread = ThreadId::new(0);
        let (Some(home), Some(thread)) =
            (self.own.home.clone(), self.add_thread(no_thread, name, at))
        else {
            return false;
        };
        self.leave(Timestamp::now());
        self.own.home = Some(ThreadContext {
            row: thread.row,
            tenure: RowOwnership::Own(thread.own),
            ..home.clone()
        });
        let is_written = write(self);
        self.leave(Timestamp::now());
        self.own.home = Some(home);
        is_written
    }

    /// Leaves the chunk, and takes one with room for `words`. False if there is none.
    fn switch(&mut self, words: usize) -> bool {
        if words.saturating_mul(8) > MAX_ENTRY_BYTES {
            self.own.count(DropReason::Oversize);
            return false;
        }
        let now = Timestamp::now();
        let wished = self.own.wished_class(now);
        self.leave(now);
        let open = |index: ChunkIndex, own: &mut Own| own.open(index, now).map(|()| index);
        let taken = self
            .own
            .take_chunk(wished, words)
            .or_else(|_| {
                self.maintain();
                self.own.take_chunk(wished, words)
            })
            .and_then(|index| open(index, &mut self.own));
        match taken {
            Ok(index) => {
                self.chunk = Some(index);
                self.own.wish = wished;
                true
            }
            Err(reason) => {
                self.own.count(reason);
                false
            }
        }
    }

    /// Hands the open chunk to the manager.
    fn leave(&mut self, now: Timestamp) {
        self.own.left = 0;
        if let (Some(index), Some(home)) = (self.chunk.take(), self.own.home.as_ref()) {
            hand_over(&home.manager, home.row, index, now);
        }
    }
}
