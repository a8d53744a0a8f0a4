//! What is found of a child: in its pool, by the reader that captures use, or in a saved profile.
//!
//! Both give the same [`Found`], which [`super::judge`] holds against what the child said.

use std::fs::File;

use anyhow::Context;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::reader::{ChunkBuffer, ChunkRead, Entries, PoolReader, ThreadInfo};

use super::entry;
use super::wild::writer_of;
use crate::profile::{Process, Thread};

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

/// Reads a pool, in the manner of a capture. The pool's process is dead or stands still; its session
/// may evict from it meanwhile.
///
/// # Errors
/// When it is not a pool, or cannot be read.
pub fn in_pool(pool: &File) -> anyhow::Result<Found> {
    let reader = PoolReader::open(pool)?;
    let snapshot = reader.snapshot()?;
    let mut found = Found { threads: Vec::new(), total: snapshot.counts() };
    let mut buffer = ChunkBuffer::default();
    for thread in &snapshot.threads {
        let Some(writer) = writer_of(&thread.name) else { continue };
        let mut of_thread = FoundThread { writer, books: books(thread), ..FoundThread::default() };
        let evicted = of_thread.read(&reader, thread, &mut buffer)?;
        found.total.delivered -= evicted;
        found.total.evicted += evicted;
        found.threads.push(of_thread);
    }
    Ok(found)
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
    /// Reads a thread's entries, and says how many were evicted meanwhile.
    fn read(
        &mut self,
        reader: &PoolReader<&File>,
        thread: &ThreadInfo,
        buffer: &mut ChunkBuffer,
    ) -> anyhow::Result<u64> {
        let (mut read, mut evicted) = (0, 0);
        for chunk in &thread.chunks {
            read += chunk.entries;
            match reader.read_chunk(chunk, buffer)? {
                ChunkRead::Entries(entries) => self.take(entries),
                // What was read before is older, so it has gone, too.
                ChunkRead::Evicted => {
                    evicted = read;
                    self.numbers.clear();
                }
            }
        }
        self.books.delivered -= evicted;
        self.books.evicted += evicted;
        Ok(evicted)
    }

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
    let mut dropped = [0; profiler_core::internal::entry_counts::DropReason::COUNT];
    dropped[0] = books.dropped;
    found.books = EntryCounts {
        delivered: books.delivered,
        evicted: books.evicted,
        dropped: profiler_core::internal::entry_counts::Drops::new(dropped),
        unfinished: books.unfinished,
    };
    Ok(found)
}
