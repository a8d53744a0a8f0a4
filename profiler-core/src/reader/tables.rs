//! Reads the live tables: threads with their counts, counters, paused ranges. Used by `snapshot`
//! and `follow`.

use std::collections::HashMap;
use std::io;

use super::definitions::Definitions;
use super::directory::ChunkInfo;
use super::source::{ByteSource, high, word};
use crate::entry_counts::{DropReason, Drops, EntryCounts};
use crate::ids::{CounterIndex, ThreadId, ThreadIndex};
use crate::pool::definitions::CounterDefinition;
use crate::pool::layout::{
    COUNTER_BYTES, Extent, Layout, MAX_PAUSES, MAX_THREAD_NAME_BYTES, Region, THREAD_BYTES,
};
use crate::pool::live::exited_threads::{Moves, SUMS, sums};
use crate::pool::live::{MAIN_THREAD, row};
use crate::sample_types::{CRASH_THREAD, SAMPLER_THREAD};
use crate::time::Timestamp;

/// A thread, with the chunks that hold its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadInfo {
    /// Its row.
    pub index: ThreadIndex,
    /// The system's number of the thread.
    pub tid: ThreadId,
    /// Shown name.
    pub name: String,
    /// Whether it is the process's main thread.
    pub is_main: bool,
    /// When it registered.
    pub registered: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Entries that were never written.
    pub dropped: Drops,
    /// Entries evicted so far, by the writer's own count.
    pub evicted: u64,
    /// Entries in chunks that the thread has left.
    pub sealed: u64,
    /// Its chunks, in the order of their entries.
    pub chunks: Vec<ChunkInfo>,
}

impl ThreadInfo {
    fn parse(index: u32, row: &[u8]) -> Option<Self> {
        if !row::is_in_use(word(row, 15)) {
            return None;
        }
        let name_len = (high(word(row, 3)) as usize).min(MAX_THREAD_NAME_BYTES);
        let name = row.get(128..128 + name_len).unwrap_or_default();
        let mut counts = [0; DropReason::COUNT];
        counts
            .iter_mut()
            .zip(4..)
            .for_each(|(count, index)| *count = word(row, index));
        let ended = word(row, 2);
        Some(Self {
            index: ThreadIndex::new(index),
            tid: ThreadId::new(word(row, 0)),
            name: String::from_utf8_lossy(name).into_owned(),
            is_main: word(row, 3) & MAIN_THREAD != 0,
            registered: Timestamp::from_raw(word(row, 1)),
            ended: (ended != 0).then(|| Timestamp::from_raw(ended)),
            dropped: Drops::new(counts),
            evicted: word(row, 12),
            sealed: word(row, 14),
            chunks: Vec::new(),
        })
    }

    /// Entries that the thread has committed in this session.
    pub fn committed(&self) -> u64 {
        let end = |chunk: &ChunkInfo| chunk.first_entry.saturating_add(chunk.entries);
        self.chunks
            .iter()
            .map(end)
            .max()
            .unwrap_or(0)
            .max(self.sealed)
    }

    /// Whether it only records entries of other threads: samples, or a crash.
    pub fn is_servant(&self) -> bool {
        self.name == SAMPLER_THREAD || self.is_of_crash()
    }

    /// Whether it is the row of the entries that the handler of a crash writes.
    pub fn is_of_crash(&self) -> bool {
        self.name == CRASH_THREAD
    }

    /// Whether an entry was being written.
    pub fn is_unfinished(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.unfinished)
    }

    /// Whether each chunk begins where the previous one ends. The oldest chunk is destroyed first,
    /// so a gap means that the directory changed while it was read.
    pub(super) fn is_contiguous(&self) -> bool {
        self.chunks.windows(2).all(|pair| match pair {
            [a, b] => a.first_entry.saturating_add(a.entries) == b.first_entry,
            _ => true,
        })
    }
}

/// A counter and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterInfo {
    /// The counter's definition.
    pub definition: CounterDefinition,
    /// Its value since the session started.
    pub value: i64,
    /// The number of times it was changed.
    pub number: u64,
}

/// A range of time in which nothing was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PausedRange {
    /// When it began.
    pub start: Timestamp,
    /// When it ended; `None` if it is still open.
    pub end: Option<Timestamp>,
}

/// The row of the process: losses that no thread could count, and the counts of exited threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessRow {
    /// Identifies the moved counts in the row: differs after each move.
    moves: Moves,
    pub(crate) counts: EntryCounts,
}

impl ProcessRow {
    fn parse(row: &[u8]) -> Option<Self> {
        let own = ThreadInfo::parse(0, row)?;
        let moves = Moves::from_word(word(row, 2));
        let at = 16 + moves.sums_at();
        let (mut dropped, evicted) = sums(std::array::from_fn::<u64, SUMS, _>(|index| {
            word(row, at + index)
        }));
        dropped += own.dropped;
        let evicted = evicted.saturating_add(own.evicted);
        Some(Self {
            moves,
            counts: EntryCounts {
                delivered: 0,
                outside: 0,
                evicted,
                dropped,
                unfinished: 0,
            },
        })
    }
}

/// The counts in the rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryCountRows {
    pub(crate) process: Option<ProcessRow>,
    /// All threads whose rows are in use and whose counts have not been moved.
    pub(crate) threads: Vec<ThreadInfo>,
}

/// Reads the counts of the process and of all its threads.
fn read_counts(source: &impl ByteSource, layout: &Layout) -> io::Result<EntryCountRows> {
    let mut counts = EntryCountRows::default();
    for_each_row(
        source,
        layout,
        Region::Threads,
        THREAD_BYTES,
        |index, row| match index {
            0 => counts.process = ProcessRow::parse(row),
            _ => counts.threads.extend(ThreadInfo::parse(index, row)),
        },
    )?;
    let moved = counts.process.and_then(|process| process.moves.moved());
    counts.threads.retain(|thread| Some(thread.index) != moved);
    Ok(counts)
}

/// Returns the counts before `between`, its result, the counts after it, and whether no counts were
/// moved between rows meanwhile.
pub(crate) fn read_counts_around<T>(
    source: &impl ByteSource,
    layout: &Layout,
    between: impl FnOnce() -> io::Result<T>,
) -> io::Result<(EntryCountRows, T, EntryCountRows, bool)> {
    let before = read_counts(source, layout)?;
    crate::sync::full_fence();
    let found = between()?;
    let after = read_counts(source, layout)?;
    crate::sync::full_fence();
    // While the row of the process names the same move, no counts were moved into it.
    let moves = |row: Option<ProcessRow>| row.map(|row| row.moves);
    let settled = moves(before.process) == moves(read_process_row(source, layout)?);
    Ok((before, found, after, settled))
}

/// The thread that uses a row now.
pub(super) fn read_thread(
    source: &impl ByteSource,
    layout: &Layout,
    index: ThreadIndex,
) -> io::Result<Option<ThreadInfo>> {
    let offset = layout
        .region(Region::Threads)
        .row(u64::from(index.get()), THREAD_BYTES);
    let Some(offset) = offset else {
        return Ok(None);
    };
    let mut row = [0; THREAD_BYTES as usize];
    source.read_at(&mut row, offset)?;
    Ok(ThreadInfo::parse(index.get(), &row))
}

/// All threads that use a row now, without the row of the process.
pub(super) fn read_threads(
    source: &impl ByteSource,
    layout: &Layout,
) -> io::Result<Vec<ThreadInfo>> {
    let mut threads = Vec::new();
    let take = |index: u32, row: &[u8]| {
        let thread = ThreadInfo::parse(index, row);
        threads.extend(thread.filter(|_| index > 0));
    };
    for_each_row(source, layout, Region::Threads, THREAD_BYTES, take)?;
    Ok(threads)
}

/// The counts at one instant; `None` while some are being moved.
pub(super) fn read_settled_counts(
    source: &impl ByteSource,
    layout: &Layout,
) -> io::Result<Option<EntryCountRows>> {
    let (_, (), counts, is_settled) = read_counts_around(source, layout, || Ok(()))?;
    Ok(is_settled.then_some(counts))
}

/// Row 0, the process itself.
fn read_process_row(source: &impl ByteSource, layout: &Layout) -> io::Result<Option<ProcessRow>> {
    let mut row = [0; THREAD_BYTES as usize];
    source.read_at(&mut row, layout.region(Region::Threads).offset)?;
    Ok(ProcessRow::parse(&row))
}

/// All counters that have a definition.
pub(super) fn read_counters(
    source: &impl ByteSource,
    layout: &Layout,
    definitions: &Definitions,
) -> io::Result<Vec<CounterInfo>> {
    let mut counters = Vec::new();
    let known: HashMap<_, _> = definitions
        .counters()
        .iter()
        .map(|counter| (counter.cell, counter))
        .collect();
    for_each_row(
        source,
        layout,
        Region::Counters,
        COUNTER_BYTES,
        |index, row| {
            let definition = known.get(&CounterIndex::new(index)).copied();
            counters.extend(definition.filter(|_| word(row, 2) != 0).map(|definition| {
                CounterInfo {
                    definition: definition.clone(),
                    value: word(row, 0).cast_signed(),
                    number: word(row, 1),
                }
            }));
        },
    )?;
    Ok(counters)
}

/// Calls `row` for every row up to the first page that was never touched.
fn for_each_row(
    source: &impl ByteSource,
    layout: &Layout,
    region: Region,
    bytes: u64,
    mut row: impl FnMut(u32, &[u8]),
) -> io::Result<()> {
    let region = layout.region(region);
    let mut page = vec![0; usize::try_from(layout.page).unwrap_or(4096)];
    let mut index = 0_u32;
    for offset in (region.offset..region.end()).step_by(page.len()) {
        source.read_at(&mut page, offset)?;
        if page.iter().all(|byte| *byte == 0) {
            break;
        }
        for bytes in page.chunks_exact(usize::try_from(bytes).unwrap_or(64)) {
            row(index, bytes);
            index = index.saturating_add(1);
        }
    }
    Ok(())
}

/// The paused ranges that are still known, oldest first.
pub(super) fn read_pauses(
    source: &impl ByteSource,
    layout: &Layout,
) -> io::Result<Vec<PausedRange>> {
    let region: Extent = layout.region(Region::Pauses);
    let mut page = vec![0; 4096];
    source.read_at(&mut page, region.offset)?;
    let count = word(&page, 0);
    let range = |number: u64| {
        let at = 2 + usize::try_from(number % MAX_PAUSES).unwrap_or(0) * 2;
        let end = word(&page, at + 1);
        PausedRange {
            start: Timestamp::from_raw(word(&page, at)),
            end: (end != 0).then(|| Timestamp::from_raw(end)),
        }
    };
    Ok((count.saturating_sub(MAX_PAUSES)..count)
        .map(range)
        .collect())
}
