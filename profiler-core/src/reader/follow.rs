//! Incremental reading of a pool: each advance reads the entries added since the previous one.
//!
//! Used by the parent's observers on live, frozen and dead pools. The writer does nothing for it:
//! changes are found in the directory, where every slot states how much of its chunk is committed.
//!
//! ```text
//! for every slot:  [ generation | committed bytes and entries ] as last seen    ── the cursor
//! directory page ──compare──▶ changed slots ──read twice──▶ [cursor … committed)
//!                             ──copy──▶ generation again?  same: entries   other: gone
//! ```
//!
//! Reading the directory takes time. Meanwhile a thread may leave one chunk and fill several
//! others; a pass may then find the last of them and miss earlier ones, in slots that it had
//! already read. But all chunks that the thread took before the one found by the first pass are
//! visible to a second pass. So a new chunk is delivered if the first pass found it, or if it
//! precedes a chunk of the same thread that the first pass found; other new chunks are deferred:
//!
//! ```text
//! A, B, C, D: chunks of one thread, in this order
//! first pass   slot 1: A     slot 2: free           slot 3: C, new
//! the thread         leaves A, fills B in slot 2, takes C          D
//! second pass  slot 1: A     slot 2: B              slot 3: C      slot 4: D, deferred: chunks
//!                                                                  before it may be unseen
//! ```
//!
//! An advance reads the directory's touched pages once, and a second time if chunks were taken
//! since the previous advance. A follower may also read the newest entries first (see [`older`]).
//! Invariants: an entry is delivered at most once; the entries of one thread are delivered in the
//! order in which it recorded them, except for those that [`Follower::advance_backward`] delivers;
//! entries evicted before they were read are counted ([`Progress::missed`], see [`missed`]): the
//! number is never too high, and exact once eviction has stopped. The pool is not trusted: work and
//! memory are bounded by its length.

mod missed;
mod older;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use super::chunk::Entries;
use super::definitions::{Definitions, DefinitionsReader};
use super::directory::{self, ChunkInfo, SlotReader};
use super::source::{ByteSource, word};
use super::tables::{self, ThreadInfo};
use super::{ReadError, read_header};
use crate::entry::Entry;
use crate::ids::{ChunkIndex, ThreadIndex};
use crate::pool::header::Header;
use crate::pool::layout::{Region, SLOT_BYTES, header as at};
use crate::time::Timestamp;
use missed::{Counted, Evicted};
use older::OlderChunks;
use profiler_trace::TraceContext;

/// Maximum number of pages of the directory that are read at once.
const PAGES: u64 = 16;

/// Identifies a chunk: no other chunk of the pool has the same slot and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkIdentity {
    /// The chunk's slot in the directory.
    pub slot: ChunkIndex,
    /// The generation of the slot.
    pub generation: u64,
}

/// An entry, with its thread and the definitions it refers to.
#[derive(Clone, Copy, Debug)]
pub struct Followed<'a> {
    /// The thread that recorded the entry. [`ThreadInfo::chunks`] is empty here.
    pub thread: &'a ThreadInfo,
    /// The chunk that holds the entry. A sample refers to earlier samples of its chunk.
    pub chunk: ChunkIdentity,
    /// The entry.
    pub entry: Entry<'a>,
    /// The definitions that it refers to.
    pub definitions: &'a Definitions,
}

/// Results of one advance, and totals of all advances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Entries that this advance delivered.
    pub entries: u64,
    /// Bytes of entries that this advance read.
    pub bytes: u64,
    /// Entries evicted before they were read, so far. The most recent evictions are included from
    /// the next advance on.
    pub missed: u64,
    /// Entries evicted before the first advance. Those entries are not missed. If the newest
    /// entries are read first, entries that are evicted before their turn are included, because
    /// they are older than all that were read.
    pub evicted_before: u64,
    /// Bytes that are not entries and were skipped, so far. Always 0 for a pool that only our
    /// writer touched.
    pub damaged: u64,
    /// Whether this advance left entries unread, which the next advance reads.
    pub is_behind: bool,
}

/// The last seen state of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    generation: u64,
    /// The row of the chunk's thread. While the thread is unknown, the row of the process, which
    /// has no chunks.
    thread: ThreadIndex,
    /// The number of the chunk's first entry.
    first_entry: u64,
    /// The commit word as seen by the quick pass.
    commit: u64,
    /// Bytes of the chunk read so far.
    bytes: u64,
    entries: u64,
    /// The trace that the entries read so far have stated last.
    trace: Option<TraceContext>,
    /// Whether its thread has left it.
    is_done: bool,
    /// Entries of a chunk that was put off: [`Follower::advance_backward`] reads them.
    put_off: u64,
}

/// Reads a pool incrementally as it grows.
#[derive(Debug)]
pub struct Follower<S> {
    source: S,
    header: Header,
    definitions: DefinitionsReader,
    cursors: Vec<Cursor>,
    /// Evicted entries according to the counts, as of the last time that chunks were destroyed.
    evicted: Evicted,
    missed_before: u64,
    progress: Progress,
    /// The thread that the next advance reads first. It changes after each incomplete advance, so
    /// that a thread that always has new entries does not keep the others from being read.
    first: ThreadIndex,
    /// The chunks that are read after newer ones.
    older: OlderChunks,
    block: Vec<u8>,
    bytes: Vec<u8>,
}

/// A slot that changed, and its new generation.
type Changed = (u32, u64);

impl Cursor {
    fn is_open(&self) -> bool {
        self.generation & 1 == 1 && !self.is_done
    }
}

impl<S: ByteSource> Follower<S> {
    /// Opens a pool. The first advance delivers all entries that exist.
    ///
    /// # Errors
    /// [`ReadError`] if the bytes are not a pool of this build.
    pub fn open(source: S) -> Result<Self, ReadError> {
        let header = read_header(&source)?;
        Ok(Self {
            source,
            header,
            definitions: DefinitionsReader::default(),
            cursors: Vec::new(),
            evicted: Evicted::default(),
            missed_before: 0,
            progress: Progress::default(),
            first: ThreadIndex::new(0),
            older: OlderChunks::none(),
            block: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// The pool's header, as of [`Follower::open`].
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Passes every entry committed since the last call to `each`, thread by thread.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn advance(&mut self, each: impl FnMut(&Followed<'_>)) -> Result<Progress, ReadError> {
        self.advance_within(u64::MAX, each)
    }

    /// Like [`Follower::advance`], but reads no further chunk after about `budget` bytes; then
    /// [`Progress::is_behind`] is set, and the next advance continues with the threads that were
    /// not served. A process that keeps changing its directory makes every advance read all its
    /// chunks again, so a caller that follows many processes sets a budget for each.
    ///
    /// # Errors
    /// As [`Follower::advance`].
    pub fn advance_within(
        &mut self,
        budget: u64,
        mut each: impl FnMut(&Followed<'_>),
    ) -> Result<Progress, ReadError> {
        (self.progress.entries, self.progress.bytes) = (0, 0);
        self.progress.is_behind = false;
        self.check_for_another_session()?;
        if !self.evicted.has_begun()
            && let Some(counts) = tables::read_settled_counts(&self.source, &self.header.layout)?
        {
            self.evicted.begin(Counted::new(&counts));
            self.progress.evicted_before = self.evicted.at_first();
        }
        let chunks = self.new_entries()?;
        let mut chunks = self.put_off(chunks);
        self.count_missed()?;
        let turn = chunks.partition_point(|chunk| chunk.thread < self.first);
        chunks.rotate_left(turn);
        // The chunks hold no more bytes than their region, unless the directory is forged.
        let mut left = budget.clamp(1, self.header.layout.region(Region::Chunks).len.max(1));
        let mut last = ThreadIndex::new(0);
        for chunk in chunks {
            self.progress.is_behind = left == 0;
            if self.progress.is_behind {
                break;
            }
            left = left.saturating_sub(self.give(&chunk, &mut each)?);
            last = chunk.thread;
        }
        let next = if self.progress.is_behind {
            last.get().saturating_add(1)
        } else {
            0
        };
        self.first = ThreadIndex::new(next);
        Ok(self.progress)
    }

    /// The present contents of a row of the thread table; `None` if no thread uses the row.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn thread(&self, index: ThreadIndex) -> Result<Option<ThreadInfo>, ReadError> {
        Ok(tables::read_thread(
            &self.source,
            &self.header.layout,
            index,
        )?)
    }

    /// All threads that use a row of the thread table now.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn threads(&self) -> Result<Vec<ThreadInfo>, ReadError> {
        Ok(tables::read_threads(&self.source, &self.header.layout)?)
    }

    /// Starts over if another session has begun in the same pool.
    fn check_for_another_session(&mut self) -> Result<(), ReadError> {
        let mut bytes = [0; 8];
        self.source.read_at(&mut bytes, at::RECORDING_START)?;
        let start = Timestamp::from_raw(u64::from_ne_bytes(bytes));
        if start != self.header.recording_start {
            self.header.recording_start = start;
            self.missed_before = self.progress.missed;
            self.evicted = Evicted::from_the_beginning();
            self.cursors.clear();
            self.older = OlderChunks::none();
        }
        Ok(())
    }

    /// The chunks that may have new entries, in the order of their entries. See the module
    /// documentation.
    fn new_entries(&mut self) -> Result<Vec<ChunkInfo>, ReadError> {
        let first = self.changed_slots()?;
        let mut slots: BTreeMap<u32, u64> = first.iter().copied().collect();
        if first
            .iter()
            .any(|&(slot, generation)| self.is_taken(slot, generation))
        {
            slots.extend(self.changed_slots()?);
            // A thread that took another chunk may have added to its previous one after that was
            // read.
            for (slot, cursor) in (0_u32..)
                .zip(&self.cursors)
                .filter(|(_, cursor)| cursor.is_open())
            {
                slots.entry(slot).or_insert(cursor.generation);
            }
        }
        Ok(in_order(self.chunks(&slots)?, &first))
    }

    /// The slots whose generation or committed length has changed, by number.
    fn changed_slots(&mut self) -> Result<Vec<Changed>, ReadError> {
        let layout = self.header.layout;
        let region = layout.region(Region::Directory);
        let mut changed = Vec::new();
        let mut slot = 0_u32;
        let mut offset = region.offset;
        while offset < region.end() {
            let touched = (self.cursors.len() as u64 * SLOT_BYTES / layout.page).saturating_add(1);
            let len = (touched.min(PAGES) * layout.page).min(region.end() - offset);
            self.block.resize(usize::try_from(len).unwrap_or(0), 0);
            self.source.read_at(&mut self.block, offset)?;
            for bytes in self.block.chunks_exact(SLOT_BYTES as usize) {
                let generation = word(bytes, 0);
                let commit = word(bytes, 8);
                let seen = self.cursors.get(slot as usize).copied().unwrap_or_default();
                if generation != seen.generation || commit != seen.commit && generation & 1 == 1 {
                    changed.push((slot, generation));
                }
                slot = slot.saturating_add(1);
            }
            let page = usize::try_from(layout.page).unwrap_or(4096);
            // Slot numbers are allocated lowest first, so an untouched page is the end.
            if self
                .block
                .rchunks(page)
                .next()
                .is_none_or(|page| page.iter().all(|byte| *byte == 0))
            {
                break;
            }
            offset = offset.saturating_add(len);
        }
        Ok(changed)
    }

    /// Whether a thread has taken a new chunk in the slot.
    fn is_taken(&self, slot: u32, generation: u64) -> bool {
        let seen = self
            .cursors
            .get(slot as usize)
            .map_or(0, |cursor| cursor.generation);
        generation & 1 == 1 && generation != seen
    }

    /// Reads these slots completely, except those already seen to be empty, moves their cursors to
    /// the present chunks, and returns those chunks. Reads after all passes over the directory, so
    /// a chunk that a later one was found to follow is complete.
    fn chunks(&mut self, slots: &BTreeMap<u32, u64>) -> Result<Vec<ChunkInfo>, ReadError> {
        let mut chunks = Vec::new();
        let mut reader = SlotReader::new(&self.header.layout);
        for (slot, seen) in slots {
            let index = ChunkIndex::new(*slot);
            let layout = &self.header.layout;
            let is_taken = seen & 1 == 1;
            let found = if is_taken {
                reader.read(&self.source, layout, index)?
            } else {
                None
            };
            let generation = match &found {
                Some(chunk) => chunk.generation,
                None if is_taken => directory::generation(&self.source, layout, index)?,
                None => *seen,
            };
            let start = self.header.recording_start;
            let Some(cursor) = self.move_cursor(*slot, generation) else {
                continue;
            };
            let Some(chunk) = found else { continue };
            if chunk.start >= start {
                (cursor.thread, cursor.first_entry) = (chunk.thread, chunk.first_entry);
                chunks.push(chunk);
            } else {
                cursor.commit = commit_of(&chunk); // of an earlier session: not counted
            }
        }
        Ok(chunks)
    }

    /// Returns the slot's cursor, which is reset first if the slot holds another chunk now.
    fn move_cursor(&mut self, slot: u32, generation: u64) -> Option<&mut Cursor> {
        let place = slot as usize;
        if self.cursors.len() <= place {
            self.cursors.resize(place + 1, Cursor::default());
        }
        let cursor = self.cursors.get_mut(place)?;
        if cursor.generation != generation {
            self.evicted
                .note_gone(cursor.entries.saturating_add(cursor.put_off));
            let before = self.progress.evicted_before;
            self.progress.evicted_before = before.saturating_add(cursor.put_off);
            self.evicted.is_stale |= cursor.generation != 0 || generation != 1;
            *cursor = Cursor {
                generation,
                ..Cursor::default()
            };
        }
        Some(cursor)
    }

    /// Delivers the entries added to a chunk; returns their number of bytes.
    fn give(
        &mut self,
        chunk: &ChunkInfo,
        each: &mut impl FnMut(&Followed<'_>),
    ) -> Result<u64, ReadError> {
        let place = chunk.index.get() as usize;
        let Some(cursor) = self.cursors.get(place).copied() else {
            return Ok(0);
        };
        let mut moved = Cursor {
            generation: chunk.generation,
            thread: chunk.thread,
            first_entry: chunk.first_entry,
            commit: commit_of(chunk),
            bytes: chunk.bytes,
            entries: chunk.entries,
            trace: cursor.trace,
            is_done: chunk.done.is_some(),
            put_off: 0,
        };
        let added = chunk.bytes.saturating_sub(cursor.bytes);
        self.progress.bytes = self.progress.bytes.saturating_add(added);
        if added > 0 {
            let offset = chunk.extent.offset.saturating_add(cursor.bytes);
            let Some(thread) = self.copy(chunk, offset, added)? else {
                return Ok(added);
            };
            let entries = chunk.entries.saturating_sub(cursor.entries);
            let identity = ChunkIdentity {
                slot: chunk.index,
                generation: chunk.generation,
            };
            moved.trace = self.decode(&thread, identity, (entries, cursor.trace), each);
        }
        if let Some(cursor) = self.cursors.get_mut(place) {
            *cursor = moved;
        }
        Ok(added)
    }

    /// Copies bytes of a chunk; `None` if it was destroyed meanwhile. Also reads the thread that
    /// wrote them and the definitions that they refer to: both exist as long as the chunk does.
    fn copy(&mut self, chunk: &ChunkInfo, offset: u64, len: u64) -> io::Result<Option<ThreadInfo>> {
        let layout = &self.header.layout;
        self.bytes.resize(usize::try_from(len).unwrap_or(0), 0);
        self.source.read_at(&mut self.bytes, offset)?;
        let thread = tables::read_thread(&self.source, layout, chunk.thread)?;
        self.definitions.read_on(&self.source, layout)?;
        crate::sync::full_fence();
        let generation = directory::generation(&self.source, layout, chunk.index)?;
        Ok(thread.filter(|_| generation == chunk.generation))
    }

    /// Delivers copied entries, which follow others that have stated `trace` last. Returns the
    /// trace that is stated last now.
    fn decode(
        &mut self,
        thread: &ThreadInfo,
        chunk: ChunkIdentity,
        (entries, trace): (u64, Option<TraceContext>),
        each: &mut impl FnMut(&Followed<'_>),
    ) -> Option<TraceContext> {
        let mut entries = Entries::new(&self.bytes, entries).after(trace);
        let definitions = self.definitions.definitions();
        for entry in entries.by_ref() {
            self.progress.entries += 1;
            each(&Followed {
                thread,
                chunk,
                entry,
                definitions,
            });
        }
        self.progress.damaged = self.progress.damaged.saturating_add(entries.left());
        entries.trace()
    }

    /// Computes the number of missed entries from the counts read before this pass, then reads the
    /// counts again if chunks have been destroyed.
    fn count_missed(&mut self) -> io::Result<()> {
        let still_there = self.counted_but_there()?;
        self.progress.missed = self
            .missed_before
            .saturating_add(self.evicted.missed(still_there));
        if self.evicted.is_stale
            && let Some(counts) = tables::read_settled_counts(&self.source, &self.header.layout)?
        {
            self.evicted.renew(Counted::new(&counts));
        }
        Ok(())
    }

    /// Entries already counted as evicted although their chunk is not closed yet.
    fn counted_but_there(&self) -> io::Result<u64> {
        let Some(counted) = &self.evicted.unsettled else {
            return Ok(0);
        };
        let entries = |cursor: &Cursor| counted.counted_from(cursor.thread, cursor.first_entry);
        let is_there = |cursor: &&Cursor| cursor.generation & 1 == 1 && entries(cursor) > 0;
        let Some(found) = self
            .cursors
            .iter()
            .filter(is_there)
            .max_by_key(|cursor| entries(cursor))
        else {
            return Ok(0);
        };
        // Zero if another thread uses the row now: the counts are those of the previous thread.
        let thread = tables::read_thread(&self.source, &self.header.layout, found.thread)?;
        Ok(thread
            .filter(|thread| counted.is_of(thread))
            .map_or(0, |_| entries(found)))
    }
}

const fn commit_of(chunk: &ChunkInfo) -> u64 {
    chunk.bytes | chunk.entries << 32
}

/// The chunks that a pass has found, and the chunks that precede them, in the order of their
/// entries.
fn in_order(mut chunks: Vec<ChunkInfo>, found: &[Changed]) -> Vec<ChunkInfo> {
    chunks.sort_by_key(|chunk| Reverse((chunk.thread, chunk.first_entry, chunk.start)));
    let mut last: Option<(ThreadIndex, Timestamp)> = None;
    chunks.retain(|chunk| {
        let is_before = |(thread, start)| chunk.thread == thread && chunk.start <= start;
        let is_found = found
            .binary_search(&(chunk.index.get(), chunk.generation))
            .is_ok();
        if is_found {
            last = Some((chunk.thread, chunk.start));
        }
        is_found || last.is_some_and(is_before)
    });
    chunks.reverse();
    chunks
}
