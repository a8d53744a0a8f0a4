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

/// The bytes that are read to find that a chunk was destroyed before its turn.
const LOOK: u64 = crate::pool::layout::SLOT_BYTES;

/// A chunk that was put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OlderChunk {
    /// When its thread left it: none of its entries is later.
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
        let next = chunks.iter().skip(1).copied().map(Some).chain([None]);
        let left: Vec<_> = chunks.iter().zip(next).map(left_at).collect();
        let mut open = Vec::new();
        for (chunk, left) in chunks.into_iter().zip(left) {
            match left {
                Some(until) if self.is_unread(&chunk) => self.put_off_one(&chunk, until),
                _ => open.push(chunk),
            }
        }
        self.older.all.sort_unstable();
        open
    }

    fn is_unread(&self, chunk: &ChunkInfo) -> bool {
        let cursor = self.cursors.get(chunk.index.get() as usize);
        cursor.is_some_and(|cursor| cursor.generation == chunk.generation && cursor.bytes == 0)
    }

    fn put_off_one(&mut self, chunk: &ChunkInfo, until: Timestamp) {
        if let Some(cursor) = self.cursors.get_mut(chunk.index.get() as usize) {
            cursor.commit = commit_of(chunk);
            (cursor.is_done, cursor.put_off) = (true, chunk.entries);
        }
        self.older.all.push(OlderChunk {
            until,
            slot: chunk.index,
            generation: chunk.generation,
        });
    }
}

/// When the thread of a chunk left it; `None` if the thread may still fill it. `next` is the chunk
/// that follows it in the order of threads and entries. A thread that has taken its next chunk has
/// left this one, even if the time at which it left it is not there yet.
fn left_at((chunk, next): (&ChunkInfo, Option<ChunkInfo>)) -> Option<Timestamp> {
    let next = next.filter(|next| next.thread == chunk.thread);
    chunk.done.or(next.map(|next| next.start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ThreadIndex;
    use crate::pool::layout::Extent;

    fn chunk(thread: u32, start: u64, done: Option<u64>) -> ChunkInfo {
        let extent = Extent { offset: 0, len: 0 };
        ChunkInfo {
            index: ChunkIndex::new(0),
            extent,
            generation: 1,
            thread: ThreadIndex::new(thread),
            start: Timestamp::from_raw(start),
            done: done.map(Timestamp::from_raw),
            bytes: 0,
            entries: 0,
            first_entry: 0,
            unfinished: false,
            has_foreign: false,
        }
    }

    #[test]
    fn no_entry_of_a_chunk_is_later_than_the_time_at_which_its_thread_left_it() {
        let at = |chunk: ChunkInfo, next| left_at((&chunk, next));
        let time = |raw| Some(Timestamp::from_raw(raw));
        let next = chunk(1, 30, None);
        assert_eq!(at(chunk(1, 10, Some(20)), Some(next)), time(20));
        assert_eq!(at(chunk(1, 10, None), Some(next)), time(30));
        assert_eq!(at(chunk(2, 10, None), Some(next)), None, "another thread");
        assert_eq!(at(chunk(1, 10, None), None), None);
        assert_eq!(at(chunk(1, 10, Some(20)), None), time(20));
    }
}
