//! What remains of a child: read from its pool by the reader that captures use, or from a saved
//! profile.
//!
//! Both give the same [`Found`], which [`super::judge`] compares with what the child reported.

use std::fs::File;

use anyhow::Context;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::{ChunkBuffer, Entries, PoolReader, ThreadInfo};
use profiler_parent::EntryCounts;

use super::entry;
use super::wild::writer_of;
use crate::profile::{Process, Thread};

/// What was found of a process.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The writers whose threads the pool still lists.
    pub threads: Vec<FoundThread>,
    /// The counts of the whole process, including threads that the pool no longer lists.
    pub total: EntryCounts,
}

/// One thread's entries and counts.
#[derive(Clone, Debug, Default)]
pub struct FoundThread {
    /// The number of the writer.
    pub writer: u32,
    /// Numbers of its entries, in the order in which they were found.
    pub numbers: Vec<u64>,
    /// Entries that differ from what was recorded, or that belong to another writer.
    pub torn: u64,
    /// The counts of the thread.
    pub counts: EntryCounts,
}

/// Reads a pool as a capture does. The process of the pool is dead or stopped. Its session may
/// evict entries meanwhile.
///
/// # Errors
/// When the file is not a pool, or cannot be read.
pub fn in_pool(pool: &File) -> anyhow::Result<Found> {
    let reader = PoolReader::open(pool)?;
    let snapshot = reader.snapshot()?;
    let mut found = Found {
        threads: Vec::new(),
        total: snapshot.counts(),
    };
    let mut buffer = ChunkBuffer::default();
    for thread in &snapshot.threads {
        let Some(writer) = writer_of(&thread.name) else {
            continue;
        };
        let mut of_thread = FoundThread {
            writer,
            counts: counts(thread),
            ..FoundThread::default()
        };
        let evicted = of_thread.read(&reader, thread, &mut buffer)?;
        found.total.delivered -= evicted;
        found.total.evicted += evicted;
        found.threads.push(of_thread);
    }
    Ok(found)
}

fn counts(thread: &ThreadInfo) -> EntryCounts {
    let delivered = thread.chunks.iter().map(|chunk| chunk.entries).sum();
    EntryCounts {
        delivered,
        outside: 0,
        evicted: thread.committed().saturating_sub(delivered),
        dropped: thread.dropped,
        unfinished: thread
            .chunks
            .iter()
            .map(|chunk| u64::from(chunk.unfinished))
            .sum(),
    }
}

impl FoundThread {
    /// Reads the entries of a thread, and returns how many were evicted meanwhile.
    fn read(
        &mut self,
        reader: &PoolReader<&File>,
        thread: &ThreadInfo,
        buffer: &mut ChunkBuffer,
    ) -> anyhow::Result<u64> {
        let mut read = 0;
        let mut evicted = 0;
        for chunk in &thread.chunks {
            read += chunk.entries;
            match reader.read_chunk(chunk, buffer)? {
                Some(entries) => self.take(entries),
                // The chunks that were read before are older, so they are evicted, too.
                None => {
                    evicted = read;
                    self.numbers.clear();
                }
            }
        }
        self.counts.delivered -= evicted;
        self.counts.evicted += evicted;
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

/// Reads a process in a saved profile. `total` is from the report of the capture.
///
/// # Errors
/// When a thread has no counts.
pub fn in_profile(process: &Process, total: EntryCounts) -> anyhow::Result<Found> {
    let of_writers = process
        .threads
        .iter()
        .filter_map(|thread| Some((writer_of(&thread.name)?, thread)));
    let threads = of_writers
        .map(|(writer, thread)| in_track(writer, thread))
        .collect::<Result<_, _>>()?;
    Ok(Found { threads, total })
}

fn in_track(writer: u32, thread: &Thread) -> anyhow::Result<FoundThread> {
    let mut found = FoundThread {
        writer,
        ..FoundThread::default()
    };
    for mark in thread.marks.iter().filter(|mark| mark.name == entry::NAME) {
        found.add(entry::from_json(&mark.data));
    }
    let counts = thread
        .counts
        .as_ref()
        .with_context(|| format!("{} has no counts", thread.name))?;
    // Only the sum of the drops is compared, so all of them get the same reason.
    let mut dropped = [0; profiler_core::session::DropReason::COUNT];
    dropped[0] = counts.dropped;
    found.counts = EntryCounts {
        delivered: counts.delivered,
        outside: 0,
        evicted: counts.evicted,
        dropped: profiler_core::session::Drops::new(dropped),
        unfinished: counts.unfinished,
    };
    Ok(found)
}
