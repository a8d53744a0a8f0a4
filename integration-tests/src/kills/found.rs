//! What is found of a child: in its pool, by the reader that captures use, or in a saved profile.
//!
//! Both give the same [`Found`], which [`super::judge`] holds against what the child said.

use std::fs::File;

use anyhow::{Context, bail};
use profiler_core::entry::Entry;
use profiler_core::losses::EntryCounts;
use profiler_core::reader::{ChunkBuffer, ChunkRead, Entries, PoolReader, Snapshot, ThreadInfo};

use super::entry;
use super::wild::writer_of;
use crate::profile::{Process, Thread};

/// Looks at a pool that changes while it is read.
const TRIES: usize = 20;

/// A process as it was found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its writers that are still told apart.
    pub threads: Vec<FoundThread>,
    /// The books of the whole process, those of threads that are gone included.
    pub total: EntryCounts,
}

/// One thread's entries and books.
#[derive(Clone, Debug, Default)]
pub struct FoundThread {
    /// Which writer it is.
    pub writer: u32,
    /// Numbers of its entries, in the order in which they were found.
    pub numbers: Vec<u64>,
    /// Entries that are not as they were recorded, or are another writer's.
    pub torn: u64,
    /// What the books say.
    pub books: EntryCounts,
}

/// Reads a pool, in the manner of a capture.
///
/// # Errors
/// When it is not a pool, or holds what no recorder writes.
pub fn in_pool(pool: &File) -> anyhow::Result<Found> {
    let reader = PoolReader::open(pool)?;
    let mut buffer = ChunkBuffer::default();
    for _ in 0..TRIES {
        let snapshot = reader.snapshot()?;
        if let Some(threads) = read_threads(&reader, &snapshot, &mut buffer)? {
            return Ok(Found { threads, total: snapshot.counts() });
        }
    }
    bail!("the pool of a dead process does not come to rest");
}

/// `None` if a chunk went while the others were read: the parent evicts from pools of the dead.
fn read_threads(
    reader: &PoolReader<&File>,
    snapshot: &Snapshot,
    buffer: &mut ChunkBuffer,
) -> anyhow::Result<Option<Vec<FoundThread>>> {
    let mut threads = Vec::new();
    for thread in &snapshot.threads {
        let Some(writer) = writer_of(&thread.name) else { continue };
        let mut found = FoundThread { writer, ..FoundThread::default() };
        for chunk in &thread.chunks {
            match reader.read_chunk(chunk, buffer)? {
                ChunkRead::Entries(entries) => found.take(entries),
                ChunkRead::Evicted => return Ok(None),
            }
        }
        found.books = books(thread);
        threads.push(found);
    }
    Ok(Some(threads))
}

fn books(thread: &ThreadInfo) -> EntryCounts {
    let delivered = thread.chunks.iter().map(|chunk| chunk.entries).sum();
    EntryCounts {
        delivered,
        evicted: thread.committed().saturating_sub(delivered),
        dropped: thread.dropped,
        unfinished: thread.chunks.iter().map(|chunk| u64::from(chunk.unfinished)).sum(),
    }
}

impl FoundThread {
    fn take(&mut self, mut entries: Entries<'_>) {
        for entry in &mut entries {
            let Entry::Marker(marker) = entry else {
                self.torn += 1;
                continue;
            };
            self.add(entry::from_payload(marker.payload));
        }
        self.torn += entries.left(); // not decoded: damaged
    }

    fn add(&mut self, entry: Option<(u32, u64)>) {
        match entry {
            Some((writer, number)) if writer == self.writer => self.numbers.push(number),
            _ => self.torn += 1,
        }
    }
}

/// The process of this name in a saved profile, whose report gives the total.
///
/// # Errors
/// When a thread has no books.
pub fn in_profile(process: &Process, total: EntryCounts) -> anyhow::Result<Found> {
    let of_writers = process.threads.iter().filter_map(|thread| Some((writer_of(&thread.name)?, thread)));
    let threads = of_writers.map(|(writer, thread)| in_track(writer, thread)).collect::<Result<_, _>>()?;
    Ok(Found { threads, total })
}

fn in_track(writer: u32, thread: &Thread) -> anyhow::Result<FoundThread> {
    let mut found = FoundThread { writer, ..FoundThread::default() };
    for mark in thread.marks.iter().filter(|mark| mark.name == entry::NAME) {
        found.add(entry::from_json(&mark.data));
    }
    let books = thread.books.as_ref().with_context(|| format!("{} has no books", thread.name))?;
    // Only the sum of the drops matters here, whatever their reasons.
    let mut dropped = [0; profiler_core::losses::DropReason::COUNT];
    dropped[0] = books.dropped;
    found.books = EntryCounts {
        delivered: books.delivered,
        evicted: books.evicted,
        dropped: profiler_core::losses::Drops::new(dropped),
        unfinished: books.unfinished,
    };
    Ok(found)
}
