//! Tests of the chunk manager on a real pool. The tests perform the steps of its threads in turn.

mod defects;
mod model;

use std::sync::{Arc, Mutex};

use super::chunks::NoChunk;
use super::maintenance;
use super::rows::NewThread;
use super::update::{ManagerUpdate, Update};
use super::*;
use crate::ids::{ThreadId, ThreadIndex};
use crate::params::SessionParams;
use crate::pool::live::RowUse;
use crate::pool::slot::{Commit, Opening};
use crate::pool::{Pool, PoolSpec, Words};

const PAGE: u64 = 4096;

/// A manager whose clock is a counter of the test.
struct Bench {
    manager: ChunkManager,
    now: u64,
    reports: Arc<Mutex<Vec<ManagerUpdate>>>,
}

/// A chunk that a thread holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    index: ChunkIndex,
    row: ThreadIndex,
}

impl Bench {
    fn new(limit_pages: u64) -> Self {
        let limit = ByteLimit::new(limit_pages * PAGE);
        let spec = PoolSpec {
            limit,
            allowance: limit,
            ..PoolSpec::starting_now(SessionParams::default()).unwrap()
        };
        let (pool, _) = Pool::attach(spec.create_pool().unwrap()).unwrap();
        let bench = Self {
            manager: ChunkManager::new(pool),
            now: 1,
            reports: Arc::default(),
        };
        let main = NewThread {
            tid: ThreadId::new(1),
            is_main: true,
            name: "main",
            at: Timestamp::ZERO,
        };
        bench
            .manager
            .lock()
            .rows
            .begin_session(&bench.manager, main)
            .unwrap();
        bench
    }

    fn listen(&self) {
        let reports = Arc::clone(&self.reports);
        self.manager.set_listener(Some(Box::new(move |update| {
            reports.lock().unwrap().push(update)
        })));
    }

    /// The updates that the listener received since the last call.
    fn heard(&self) -> Vec<ManagerUpdate> {
        std::mem::take(&mut self.reports.lock().unwrap())
    }

    /// The one report since the last call.
    fn one_report(&self) -> Update {
        match &self.heard()[..] {
            [ManagerUpdate::Changed(update)] => update.clone(),
            other => panic!("not one report: {other:?}"),
        }
    }

    fn tick(&mut self) -> Timestamp {
        self.now += 1;
        Timestamp::from_raw(self.now)
    }

    fn thread(&self) -> (ThreadIndex, RowUse) {
        let thread = NewThread {
            tid: ThreadId::new(9),
            is_main: false,
            name: "t",
            at: Timestamp::ZERO,
        };
        self.manager
            .threads
            .add(self.manager.pool(), thread)
            .unwrap()
    }

    /// Takes a chunk like the slow path of a recording thread.
    fn take(&mut self, class: u8, row: ThreadIndex) -> Result<Held, NoChunk> {
        let index = maintenance::acquire(&self.manager, class)?;
        Ok(self.opened(index, row))
    }

    fn opened(&mut self, index: ChunkIndex, row: ThreadIndex) -> Held {
        let start = self.tick();
        let pool = self.manager.pool();
        let first_entry = pool.thread_row(row).unwrap().sealed();
        pool.slot(index).unwrap().open(Opening {
            thread: row,
            start,
            first_entry,
        });
        Held { index, row }
    }

    /// Commits entries of two words each, as many as fit.
    fn write(&self, held: Held, entries: u64) -> u64 {
        let pool = self.manager.pool();
        let slot = pool.slot(held.index).unwrap();
        let mut commit = slot.committed();
        let room = (slot.bytes() - commit.bytes()) / 16;
        for _ in 0..entries.min(room) {
            let word = crate::entry::head(
                2,
                crate::entry::Timing::Instant(Timestamp::ZERO),
                false,
                false,
                crate::ids::DefinitionId::NONE,
            );
            let bytes = [word.to_ne_bytes(), [1; 8]].concat();
            pool.map()
                .write_words(slot.offset() + commit.bytes(), &bytes)
                .unwrap();
            commit = commit.plus(16);
        }
        slot.begin(Commit::default());
        slot.publish(commit);
        entries.min(room)
    }

    /// Hands a chunk over like a recording thread's switch; the chunk was done at `done`.
    fn hand_over_at(&self, held: Held, done: Timestamp) {
        let pool = self.manager.pool();
        let slot = pool.slot(held.index).unwrap();
        slot.finish(done);
        pool.thread_row(held.row)
            .unwrap()
            .seal(slot.first_entry() + slot.committed().entries());
        self.manager.done.push(slot, held.index);
    }

    fn hand_over(&mut self, held: Held) -> Timestamp {
        let done = self.tick();
        self.hand_over_at(held, done);
        done
    }

    /// A chunk of the smallest class with `entries` entries, released.
    fn released(&mut self, row: ThreadIndex, entries: u64) -> Timestamp {
        let held = self.take(0, row).unwrap();
        self.write(held, entries);
        let done = self.hand_over(held);
        self.collect();
        done
    }

    fn collect(&self) {
        self.manager.lock().chunks.collect_done(&self.manager);
    }

    fn used(&self) -> u64 {
        self.manager.pool().budget().used_and_allowed().0
    }

    fn allowed(&self) -> u64 {
        self.manager.pool().budget().used_and_allowed().1
    }

    fn allocated(&self) -> u64 {
        profiler_sys::allocated_bytes(self.manager.pool().file().unwrap()).unwrap()
    }
}
