//! The accounting of thread rows, counter cells and group cells: which are taken, and which pages
//! are charged.
//!
//! Called with the manager's lock held. A thread's row outlives the thread until its last chunk is
//! destroyed; then its counts move to row 0, the row of the process, and the row is free again. So
//! the sums of a process stay exact while threads start and end.

use std::collections::BTreeSet;

use super::ChunkManager;
use super::chunks::Chunks;
use crate::ids::{CounterIndex, GroupIndex, ThreadId, ThreadIndex};
use crate::pool::layout::{COUNTER_BYTES, GROUP_BYTES, Layout, MAX_COUNTERS, MAX_GROUPS, Region};
pub(crate) use crate::pool::live::NewThread;

/// Rows of the live tables.
#[derive(Debug)]
pub(crate) struct Rows {
    counters: Table,
    groups: Table,
    /// Rows of threads that have ended.
    ended: BTreeSet<u32>,
    /// Rows of threads that have entries in the chunks of another thread, the sampler.
    held: BTreeSet<u32>,
    pauses_charged: bool,
}

impl Rows {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self {
            counters: Table::new(Region::Counters, COUNTER_BYTES, MAX_COUNTERS, layout.page),
            groups: Table::new(Region::Groups, GROUP_BYTES, MAX_GROUPS, layout.page),
            ended: BTreeSet::new(),
            held: BTreeSet::new(),
            pauses_charged: false,
        }
    }

    /// Called when a session starts: all rows are free except the row of the process, one for the
    /// main thread, and rows of an earlier session that their threads have not released.
    pub(crate) fn begin_session(
        &mut self,
        manager: &ChunkManager,
        main: NewThread<'_>,
    ) -> Option<ThreadIndex> {
        let pool = manager.pool();
        let threads = &manager.threads;
        threads.clear(pool);
        self.ended.clear();
        self.held.clear();
        let process = NewThread {
            tid: ThreadId::new(0),
            is_main: false,
            name: "",
            at: main.at,
        };
        threads
            .keep(pool, process)
            .filter(|row| *row == ThreadIndex::PROCESS)?;
        threads.keep(pool, main)
    }

    /// Frees the rows of ended threads whose last chunk has been destroyed. Visits only the rows
    /// that have changed.
    ///
    /// `just_ended` was taken from the thread rows before the done chunks were collected, so every
    /// chunk of a row in it is in the lists.
    pub(crate) fn sweep(
        &mut self,
        manager: &ChunkManager,
        chunks: &mut Chunks,
        just_ended: Vec<ThreadIndex>,
    ) {
        let mut candidates = chunks.take_emptied();
        for index in just_ended {
            self.ended.insert(index.get());
            candidates.push(index.get());
        }
        for number in candidates {
            self.retire_if_done(manager, chunks, number);
        }
    }

    /// Keeps the row, after its thread has ended and its chunks are gone, until [`Rows::let_go`].
    pub(crate) fn hold(&mut self, row: ThreadIndex) {
        self.held.insert(row.get());
    }

    /// Called when the other thread's chunks hold no more entries of the row's thread.
    pub(crate) fn let_go(&mut self, manager: &ChunkManager, chunks: &Chunks, row: ThreadIndex) {
        self.held.remove(&row.get());
        self.retire_if_done(manager, chunks, row.get());
    }

    fn retire_if_done(&mut self, manager: &ChunkManager, chunks: &Chunks, number: u32) {
        if !chunks.row_is_used(number) && !self.held.contains(&number) && self.ended.remove(&number)
        {
            self.retire(manager, number);
        }
    }

    fn retire(&mut self, manager: &ChunkManager, number: u32) {
        let pool = manager.pool();
        let index = ThreadIndex::new(number);
        if let (Some(process), Some(row)) = (
            pool.thread_row(ThreadIndex::PROCESS),
            pool.thread_row(index),
        ) {
            process.absorb(index, row);
            manager.threads.put(index);
        }
    }

    /// Takes a counter cell; cells are never freed.
    pub(crate) fn add_counter(&mut self, manager: &ChunkManager) -> Option<CounterIndex> {
        self.counters.take(manager).map(CounterIndex::new)
    }

    /// Takes the next group cell, and calls `name` to define it. If `name` fails, the cell stays
    /// free, so that the cells in use have no gaps.
    pub(crate) fn add_group(
        &mut self,
        manager: &ChunkManager,
        name: impl FnOnce(GroupIndex) -> Option<()>,
    ) -> Option<GroupIndex> {
        let index = self.groups.take(manager).map(GroupIndex::new)?;
        let named = name(index);
        if named.is_none() {
            self.groups.frontier = index.get();
        }
        named.map(|()| index)
    }

    /// Sets all groups to zero when a new session begins.
    pub(crate) fn reset_groups(&self, manager: &ChunkManager) {
        for number in 0..self.groups.frontier {
            if let Some(cell) = manager.pool().group(GroupIndex::new(number)) {
                cell.reset();
            }
        }
    }

    /// How many counter cells were taken.
    pub(crate) fn counters(&self) -> usize {
        usize::try_from(self.counters.frontier).unwrap_or(0)
    }

    /// Sets all counters to zero when a new session begins.
    pub(crate) fn reset_counters(&self, manager: &ChunkManager) {
        for number in 0..self.counters.frontier {
            if let Some(cell) = manager.pool().counter(CounterIndex::new(number)) {
                cell.reset();
            }
        }
    }

    /// Whether the page of paused ranges is charged.
    pub(crate) const fn pauses_charged(&self) -> bool {
        self.pauses_charged
    }

    /// Charges the page of paused ranges, unless it is charged. False if there is no room for it.
    pub(crate) fn charge_pauses(&mut self, manager: &ChunkManager) -> bool {
        if !self.pauses_charged {
            self.pauses_charged = manager.pool().take_page(Region::Pauses, 0);
        }
        self.pauses_charged
    }
}

/// Rows of one table, never freed; pages are charged as they are reached.
#[derive(Debug)]
struct Table {
    region: Region,
    bytes: u64,
    most: u64,
    page: u64,
    frontier: u32,
    charged: u64,
}

impl Table {
    const fn new(region: Region, bytes: u64, most: u64, page: u64) -> Self {
        Self {
            region,
            bytes,
            most,
            page,
            frontier: 0,
            charged: 0,
        }
    }

    fn take(&mut self, manager: &ChunkManager) -> Option<u32> {
        if u64::from(self.frontier) >= self.most {
            return None;
        }
        let end = (u64::from(self.frontier) + 1) * self.bytes;
        if end > self.charged {
            if !manager.pool().take_page(self.region, self.charged) {
                manager.pool().budget().want(self.page);
                return None;
            }
            self.charged += self.page;
        }
        self.frontier += 1;
        Some(self.frontier - 1)
    }
}
