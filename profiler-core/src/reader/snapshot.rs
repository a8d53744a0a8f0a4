//! The state of a pool at one instant, ready to be turned into a profile.
//!
//! Called by the profile writers. The snapshot holds names and counts, not entries: entries are
//! copied chunk by chunk, so reading a pool of any size takes the memory of one chunk and its
//! directory.

use std::collections::{HashMap, HashSet};

use super::chunk::{self, ChunkBuffer, Entries};
use super::definitions::{self, Definitions};
use super::directory::{self, ChunkInfo};
use super::source::ByteSource;
use super::tables::{self, CounterInfo, EntryCountRows, PausedRange, ThreadInfo};
use super::{ReadError, read_header};
use crate::entry_counts::EntryCounts;
use crate::ids::ThreadIndex;
use crate::pool::header::Header;
use crate::time::Timestamp;

/// The number of reads of the directory before a snapshot of a busy process is accepted.
const TRIES: usize = 4;

/// Reads one pool.
#[derive(Debug)]
pub struct PoolReader<S> {
    source: S,
    header: Header,
}

/// The state of a pool at one instant.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The pool's header.
    pub header: Header,
    /// Names, schemas, categories, counters.
    pub definitions: Definitions,
    /// Threads that are alive or still have entries, the main thread first, then by number.
    pub threads: Vec<ThreadInfo>,
    /// Counts of threads whose rows were freed, and losses that no thread could count.
    pub gone: EntryCounts,
    /// Counters with their values.
    pub counters: Vec<CounterInfo>,
    /// The ranges in which nothing was recorded.
    pub pauses: Vec<PausedRange>,
}

impl Snapshot {
    /// Committed entries in all chunks.
    pub fn entries(&self) -> u64 {
        self.chunks()
            .fold(0, |sum, chunk| sum.saturating_add(chunk.entries))
    }

    /// All chunks that hold entries.
    pub fn chunks(&self) -> impl Iterator<Item = &ChunkInfo> {
        self.threads.iter().flat_map(|thread| &thread.chunks)
    }

    /// The instant of the last committed entry or chunk in the pool; a lower bound for the end of
    /// the process's life.
    pub fn last_seen(&self) -> Timestamp {
        let times = self.chunks().map(|chunk| chunk.done.unwrap_or(chunk.start));
        times.max().unwrap_or(self.header.recording_start)
    }

    /// Counts under the assumption that every chunk in the snapshot is delivered whole.
    pub fn counts(&self) -> EntryCounts {
        let mut counts = self.gone;
        for thread in &self.threads {
            let delivered: u64 = thread.chunks.iter().map(|chunk| chunk.entries).sum();
            counts += EntryCounts {
                delivered,
                outside: 0,
                evicted: thread.committed().saturating_sub(delivered),
                dropped: thread.dropped,
                unfinished: u64::from(thread.is_unfinished()),
            };
        }
        counts
    }
}

impl<S: ByteSource> PoolReader<S> {
    /// Checks that the bytes are a pool.
    ///
    /// # Errors
    /// [`ReadError`] if they are not, or are of another version.
    pub fn open(source: S) -> Result<Self, ReadError> {
        let header = read_header(&source)?;
        Ok(Self { source, header })
    }

    /// The pool's header, as of [`PoolReader::open`].
    pub const fn header(&self) -> &Header {
        &self.header
    }

    pub(super) const fn source(&self) -> &S {
        &self.source
    }

    /// Reads everything except the entries. Costs the directory and the names, not the data.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        let header = read_header(&self.source)?;
        let layout = self.header.layout;
        let EntryCountRows {
            process,
            mut threads,
        } = self.counts_with_chunks()?;
        let gone = process.map(|process| process.counts).unwrap_or_default();
        threads.sort_by_key(|thread| (!thread.is_main, thread.index));
        // Read after the chunks: an entry's names are defined before the entry is committed.
        let definitions = definitions::read(&self.source, &layout)?;
        let counters = tables::read_counters(&self.source, &layout, &definitions)?;
        let pauses = tables::read_pauses(&self.source, &layout)?;
        Ok(Snapshot {
            header,
            definitions,
            threads,
            gone,
            counters,
            pauses,
        })
    }

    /// Reads the definitions only: categories, schemas, counters.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn definitions(&self) -> Result<Definitions, ReadError> {
        Ok(definitions::read(&self.source, &self.header.layout)?)
    }

    /// Whether the process has recorded a crash. Costs the rows and the directory.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn has_crash(&self) -> Result<bool, ReadError> {
        let threads = self.counts_with_chunks()?.threads;
        let has_entries = |thread: &ThreadInfo| thread.chunks.iter().any(|chunk| chunk.entries > 0);
        Ok(threads
            .iter()
            .any(|row| row.is_of_crash() && has_entries(row)))
    }

    /// Reads consistent counts and chunks: retries if a busy writer left gaps between the chunks,
    /// or moved the counts of an exited thread meanwhile.
    fn counts_with_chunks(&self) -> Result<EntryCountRows, ReadError> {
        let mut last = EntryCountRows::default();
        for _ in 0..TRIES {
            let (counts, settled) = self.try_counts_with_chunks()?;
            last = counts;
            if settled && last.threads.iter().all(ThreadInfo::is_contiguous) {
                break;
            }
        }
        Ok(last)
    }

    /// One try. Returns the rows with their chunks, and whether both are from one instant.
    fn try_counts_with_chunks(&self) -> Result<(EntryCountRows, bool), ReadError> {
        let layout = &self.header.layout;
        let recording_start = read_header(&self.source)?.recording_start;
        let read_directory = || directory::read(&self.source, layout);
        let (before, chunks, mut counts, settled) =
            tables::read_counts_around(&self.source, layout, read_directory)?;
        let before = before.threads;
        let threads = &mut counts.threads;
        let known: HashSet<_> = before
            .iter()
            .map(|thread| (thread.index, thread.tid))
            .collect();
        threads.retain(|thread| known.contains(&(thread.index, thread.tid)));
        let places: HashMap<ThreadIndex, usize> = threads
            .iter()
            .enumerate()
            .map(|(place, thread)| (thread.index, place))
            .collect();
        for chunk in chunks
            .into_iter()
            .filter(|chunk| chunk.start >= recording_start)
        {
            let place = places
                .get(&chunk.thread)
                .and_then(|place| threads.get_mut(*place));
            if let Some(thread) = place {
                thread.chunks.push(chunk);
            }
        }
        let mut settled = settled;
        for thread in threads {
            thread
                .chunks
                .sort_by_key(|chunk| (chunk.first_entry, chunk.start));
            let last = thread.chunks.last();
            let end = last.map_or(thread.evicted, |last| {
                last.first_entry.saturating_add(last.entries)
            });
            if thread.sealed > end {
                settled &= last.is_none_or(|last| self.is_there(last));
                // The row was read after the chunks, so chunks that the thread left since are not
                // included. Evicted entries were recorded, even if they were evicted during the
                // last try.
                thread.sealed = end.max(thread.evicted);
            }
        }
        Ok((counts, settled))
    }

    /// Whether a chunk is unchanged. The oldest chunk is destroyed first, so if this one was
    /// destroyed, the thread's later chunks may also have been destroyed, and are not merely newer
    /// than the read.
    fn is_there(&self, chunk: &ChunkInfo) -> bool {
        let generation = directory::generation(&self.source, &self.header.layout, chunk.index);
        generation.is_ok_and(|generation| generation == chunk.generation)
    }

    /// Copies the committed entries of a chunk. `None` if it was destroyed meanwhile; its entries
    /// count as evicted.
    ///
    /// # Errors
    /// When the source can no longer be read.
    pub fn read_chunk<'a>(
        &self,
        chunk: &ChunkInfo,
        buffer: &'a mut ChunkBuffer,
    ) -> Result<Option<Entries<'a>>, ReadError> {
        Ok(chunk::read(
            &self.source,
            &self.header.layout,
            chunk,
            buffer,
        )?)
    }

    /// The time of the last entry in the pool. Reads the last chunk of each thread.
    pub fn last_entry(&self, snapshot: &Snapshot) -> Timestamp {
        let mut buffer = ChunkBuffer::default();
        let threads = snapshot.threads.iter();
        let last = threads.filter_map(|thread| self.last_entry_of(thread, &mut buffer));
        last.fold(snapshot.last_seen(), Timestamp::max)
    }

    /// The time of a thread's latest entry that has a time, in the chunk that it wrote last. `None`
    /// if that is not known. Reads one chunk.
    pub(super) fn last_entry_of(
        &self,
        thread: &ThreadInfo,
        buffer: &mut ChunkBuffer,
    ) -> Option<Timestamp> {
        let chunk = thread.chunks.last()?;
        match self.read_chunk(chunk, buffer) {
            Ok(Some(entries)) => entries.filter_map(|entry| entry.last()).max(),
            _ => None,
        }
    }
}
