//! Reading the newest entries first: the chunks that a follower puts off, and reads backward.
//!
//! A client that shows the last seconds cannot wait until a large pool has been read from its
//! beginning. The first advance of such a follower reads only the chunks that threads are filling.
//! It puts off all chunks that their threads have left:
//!
//! ```text
//! thread 1     [ A ][ B ][ C ][ D …       D and F are read by advances, as they grow
//! thread 2       [   E   ][ F …           C, E, B, A are read by calls of `advance_backward`
//!                        └─ until: no entry of E is later, nor of B and A
//! ```
//!
//! A chunk is delivered as a whole, from its first entry to its last one. The process goes on
//! recording meanwhile, and may destroy the oldest chunks before their turn. Invariants: the list
//! of chunks that were put off does not grow after the first advance; a chunk that its thread has
//! left does not change, so its cursor has its present commit word, and no advance delivers it; the
//! entries of a chunk that is destroyed before its turn are counted as evicted before the first
//! advance.

use super::{Followed, Follower, Progress, commit_of};
use crate::ids::ChunkIndex;
use crate::reader::directory::{self, ChunkInfo};
use crate::reader::{ByteSource, ReadError};
use crate::time::Timestamp;

/// The bytes that the look at a chunk costs that was destroyed before its turn.
const LOOK: u64 = crate::pool::layout::SLOT_BYTES;

/// A chunk that was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OlderChunk {
    /// When its thread left it.
    until: Timestamp,
    slot: ChunkIndex,
    generation: u64,
}

/// The chunks that were put off.
#[derive(Debug)]
pub(super) struct OlderChunks {
    /// Whether the next advance is the first one, and puts off chunks.
    is_wanted: bool,
    /// The chunk that was left last is at the end.
    all: Vec<OlderChunk>,
}

impl OlderChunks {
    /// Nothing is put off: entries are read from the oldest to the newest.
    pub(super) const fn none() -> Self {
        Self {
            is_wanted: false,
            all: Vec::new(),
        }
    }
}

impl<S: ByteSource> Follower<S> {
    /// Opens a pool of which the newest entries are read first. The first advance delivers the
    /// entries of the chunks that threads are filling; [`Self::advance_backward`] delivers what was
    /// recorded before.
    ///
    /// # Errors
    /// As [`Follower::open`].
    pub fn open_newest_first(source: S) -> Result<Self, ReadError> {
        let mut follower = Self::open(source)?;
        follower.older.is_wanted = true;
        Ok(follower)
    }

    /// The time after which all entries have been read, unless [`Progress::is_behind`] is set.
    /// `None` if no chunk is left that was put off.
    pub fn older_until(&self) -> Option<Timestamp> {
        self.older.all.last().map(|chunk| chunk.until)
    }

    /// Passes the entries of the newest chunk that was put off to `each`, in the order in which
    /// they were recorded. `None` if no chunk is left. A chunk that was destroyed has no entries.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn advance_backward(
        &mut self,
        mut each: impl FnMut(&Followed<'_>),
    ) -> Result<Option<Progress>, ReadError> {
        let Some(next) = self.older.all.pop() else {
            return Ok(None);
        };
        (self.progress.entries, self.progress.bytes) = (0, 0);
        let found = directory::read_slot(&self.source, &self.header.layout, next.slot)?;
        if let Some(chunk) = found.filter(|chunk| self.is_next(&next, chunk)) {
            self.give(&chunk, &mut each)?;
        }
        self.progress.bytes = self.progress.bytes.max(LOOK);
        Ok(Some(self.progress))
    }

    /// Whether the chunk in a slot is the one that was put off.
    fn is_next(&self, next: &OlderChunk, chunk: &ChunkInfo) -> bool {
        let cursor = self.cursors.get(next.slot.get() as usize);
        let is_known = cursor.is_some_and(|cursor| cursor.generation == next.generation);
        is_known && chunk.generation == next.generation
    }

    /// At the first advance of a follower that reads the newest entries first, puts off the chunks
    /// that their threads have left. Returns the other chunks.
    pub(super) fn put_off(&mut self, chunks: Vec<ChunkInfo>) -> Vec<ChunkInfo> {
        if !std::mem::take(&mut self.older.is_wanted) {
            return chunks;
        }
        let threads = chunks.iter().skip(1).map(|chunk| Some(chunk.thread));
        let next_threads: Vec<_> = threads.chain([None]).collect();
        let mut open = Vec::new();
        for (chunk, next) in chunks.into_iter().zip(next_threads) {
            let is_left = chunk.done.is_some() || next == Some(chunk.thread);
            if is_left && self.is_unread(&chunk) {
                self.put_off_one(&chunk);
            } else {
                open.push(chunk);
            }
        }
        self.older.all.sort_unstable();
        open
    }

    fn is_unread(&self, chunk: &ChunkInfo) -> bool {
        let cursor = self.cursors.get(chunk.index.get() as usize);
        cursor.is_some_and(|cursor| cursor.generation == chunk.generation && cursor.bytes == 0)
    }

    fn put_off_one(&mut self, chunk: &ChunkInfo) {
        if let Some(cursor) = self.cursors.get_mut(chunk.index.get() as usize) {
            cursor.commit = commit_of(chunk);
            (cursor.is_done, cursor.put_off) = (true, chunk.entries);
        }
        self.older.all.push(OlderChunk {
            until: chunk.done.unwrap_or(chunk.start),
            slot: chunk.index,
            generation: chunk.generation,
        });
    }
}
