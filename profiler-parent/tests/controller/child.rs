//! A simple model of a chunk manager and its control thread, as the controller's rules describe
//! them.
//!
//! Used by all tests of the controller. The model holds a real list of chunks and obeys its
//! allowance at every step. The latest allowance that it received (`received`) and the one that its
//! manager obeys (`allowance`) may differ for a while.

use std::collections::VecDeque;

use profiler_core::ids::{ByteLimit, PoolId};
use profiler_core::internal::manager::update::{ManagerUpdate, ReleasedChunk, Update};
use profiler_core::time::Timestamp;
use profiler_parent::internal::controller::DeadPoolMemory;

/// The pool of one process with this pid; `life` distinguishes processes with the same pid.
pub(crate) fn key(pid: u32, life: u64) -> PoolId {
    PoolId::new((u128::from(life) << 32) | u128::from(pid))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) opened: u64,
    pub(crate) done: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) received: u64,
    pub(crate) allowance: u64,
    base: u64,
    pub(crate) open: Option<Chunk>,
    pub(crate) released: VecDeque<Chunk>,
    pending: ManagerUpdate,
    awaiting: bool,
    pub(crate) dropped: u64,
}

impl Child {
    /// A process that starts with `allowance` and needs `base` bytes for its header and tables.
    pub(crate) fn new(allowance: u64, base: u64) -> Self {
        let mut child = Self {
            received: allowance,
            allowance,
            base,
            open: None,
            released: VecDeque::new(),
            pending: ManagerUpdate::None,
            awaiting: false,
            dropped: 0,
        };
        child.report(Vec::new(), 0);
        child
    }

    pub(crate) fn released_bytes(&self) -> u64 {
        self.released.iter().map(|chunk| chunk.bytes).sum()
    }

    pub(crate) fn held(&self) -> u64 {
        self.base + self.open.map_or(0, |chunk| chunk.bytes) + self.released_bytes()
    }

    /// The open chunk is full at `now`, and the thread needs another one of `bytes`.
    pub(crate) fn fill(&mut self, now: u64, bytes: u64) {
        self.obey();
        let mut newly = Vec::new();
        if let Some(chunk) = self.open.take() {
            let full = Chunk { done: now, ..chunk };
            self.released.push_back(full);
            newly.push(ReleasedChunk {
                done: Timestamp::from_raw(now),
                bytes: full.bytes,
            });
        }
        let fits = self.held() + bytes <= self.allowance;
        self.shrink(bytes);
        if self.held() + bytes <= self.allowance {
            self.open = Some(Chunk {
                opened: now,
                done: 0,
                bytes,
            });
        } else {
            self.dropped += 1;
        }
        self.report(newly, if fits { 0 } else { bytes });
    }

    fn shrink(&mut self, room: u64) {
        while self.held() + room > self.allowance && self.released.pop_front().is_some() {}
    }

    /// The manager adopts the allowance that the control thread received.
    pub(crate) fn obey(&mut self) {
        let lowered = self.received < self.allowance;
        if lowered && self.base + self.open.map_or(0, |chunk| chunk.bytes) > self.received {
            // The open chunk stays, because it is being written. All other chunks are destroyed.
            self.released.clear();
        }
        self.allowance = self.received;
        if lowered {
            self.shrink(0);
            self.report(Vec::new(), 0);
        }
    }

    fn report(&mut self, mut newly: Vec<ReleasedChunk>, wanted: u64) {
        let oldest = self
            .released
            .front()
            .map(|chunk| Timestamp::from_raw(chunk.done));
        newly.retain(|chunk| oldest.is_some_and(|oldest| chunk.done >= oldest));
        self.pending.fold(ManagerUpdate::Changed(Update {
            unreleased_bytes: self.base + self.open.map_or(0, |chunk| chunk.bytes),
            released_bytes: self.released_bytes(),
            oldest_done: oldest,
            newly_released: newly,
            wanted_bytes: wanted,
            allowance: ByteLimit::new(self.allowance),
        }));
    }

    pub(crate) fn on_await(&mut self, allowance: ByteLimit) {
        assert!(!self.awaiting, "two Awaits outstanding");
        self.awaiting = true;
        self.received = allowance.get();
    }

    pub(crate) fn on_destroy(&mut self, at_or_before: Timestamp) {
        self.obey();
        self.destroy(at_or_before);
        self.report(Vec::new(), 0);
    }

    pub(crate) fn destroy(&mut self, at_or_before: Timestamp) {
        while self
            .released
            .front()
            .is_some_and(|chunk| chunk.done <= at_or_before.raw())
        {
            self.released.pop_front();
        }
    }

    /// The update that the control thread sends now, if any.
    pub(crate) fn answer(&mut self) -> Option<Update> {
        if !self.awaiting {
            return None;
        }
        let ManagerUpdate::Changed(update) = self.pending.take() else {
            return None;
        };
        self.awaiting = false;
        Some(update)
    }

    /// The channel breaks. The new channel begins with a full report, because earlier ones may be
    /// lost.
    pub(crate) fn reconnect(&mut self) {
        self.awaiting = false;
        let all = self.released.iter();
        let all = all.map(|chunk| ReleasedChunk {
            done: Timestamp::from_raw(chunk.done),
            bytes: chunk.bytes,
        });
        self.pending = ManagerUpdate::None;
        self.report(all.collect(), 0);
    }

    /// Dies at `now`. Returns what the parent reads from the pool, in which the open chunk is one
    /// of the chunks.
    pub(crate) fn die(&mut self, now: u64) -> DeadPoolMemory {
        if let Some(chunk) = self.open.take() {
            self.released.push_back(Chunk { done: now, ..chunk });
        }
        let chunks = self.released.iter();
        let chunks = chunks.map(|chunk| ReleasedChunk {
            done: Timestamp::from_raw(chunk.done),
            bytes: chunk.bytes,
        });
        DeadPoolMemory {
            true_bytes: self.held(),
            unreleased_bytes: self.base,
            chunks: chunks.collect(),
        }
    }
}
