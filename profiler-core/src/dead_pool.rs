//! The pool of a dead process, managed by a process that outlived it.
//!
//! The parent opens one when a child has died. It keeps the counts where the process kept them, in
//! the pool itself, so every later reader finds the same numbers. Invariants: the process has
//! ended, so there is no other writer; nothing is mapped; chunks are destroyed oldest first, and
//! their entries are counted as evicted before their memory is released. A file of the program that
//! has reused the descriptor's number is neither read nor written.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::manager::update::ReleasedChunk;
use crate::pool::layout::{Extent, Layout, Region, SLOT_BYTES, THREAD_BYTES};
use crate::reader::{ChunkInfo, PoolReader, ReadError};
use crate::sys;
use crate::time::Timestamp;
use profiler_sys::OwnFile;

/// Words of a thread row: evicted entries, evicted bytes, sealed entries.
const EVICTED_ENTRIES: u64 = 12 * 8;
const EVICTED_BYTES: u64 = 13 * 8;
const SEALED: u64 = 14 * 8;

/// The pool of a process that is dead.
#[derive(Debug)]
pub struct DeadPool {
    file: Arc<OwnFile>,
    layout: Layout,
    /// Chunks that hold entries, oldest first.
    chunks: Vec<(Timestamp, ChunkInfo)>,
}

impl DeadPool {
    /// Takes the pool over, and releases the memory of chunks without entries at once: chunks that
    /// were ready, and chunks that were being recycled.
    ///
    /// # Errors
    /// If the file is not a pool, or cannot be read.
    pub fn open(file: impl Into<Arc<OwnFile>>, died: Timestamp) -> Result<Self, ReadError> {
        let file = file.into();
        let reader = PoolReader::open(&*file)?;
        let snapshot = reader.snapshot()?;
        // Times after the death are invalid: a chunk with a time in the future would never be old
        // enough to be destroyed.
        let aged = |chunk: &ChunkInfo| (chunk.done.map_or(died, |done| done.min(died)), *chunk);
        let mut chunks: Vec<_> = snapshot.chunks().map(aged).collect();
        chunks.sort_by_key(|(done, chunk)| (*done, chunk.index));
        let layout = snapshot.header.layout;
        let dead_pool = Self {
            file,
            layout,
            chunks,
        };
        dead_pool.free_gaps();
        Ok(dead_pool)
    }

    /// Punches holes where there are no chunks with entries.
    fn free_gaps(&self) {
        let region = self.layout.region(Region::Chunks);
        let mut extents: Vec<Extent> = self.chunks.iter().map(|(_, chunk)| chunk.extent).collect();
        extents.sort_by_key(|extent| extent.offset);
        let mut at = region.offset;
        for extent in extents.into_iter().chain([Extent {
            offset: region.end(),
            len: 0,
        }]) {
            if extent.offset > at {
                // Failure is harmless: the memory stays accounted for.
                let _ = self.punch_hole(at, extent.offset - at);
            }
            at = at.max(extent.end());
        }
    }

    /// Chunks that hold entries, oldest first.
    pub fn chunks(&self) -> Vec<ReleasedChunk> {
        self.chunks
            .iter()
            .map(|(done, chunk)| ReleasedChunk {
                done: *done,
                bytes: chunk.extent.len,
            })
            .collect()
    }

    /// The bytes that the pool occupies.
    ///
    /// # Errors
    /// The error of `fstat`.
    pub fn held_bytes(&self) -> io::Result<u64> {
        profiler_sys::allocated_bytes(self.file.get()?)
    }

    /// The file, for reading a profile from it.
    pub fn file(&self) -> &OwnFile {
        &self.file
    }

    /// Destroys the chunks that were done at or before `at`, and returns the bytes still held.
    ///
    /// # Errors
    /// If the file cannot be written; chunks destroyed before the error stay destroyed.
    pub fn destroy_at_or_before(&mut self, at: Timestamp) -> io::Result<u64> {
        let end = self.chunks.partition_point(|(done, _)| *done <= at);
        for (_, chunk) in self.chunks.drain(..end).collect::<Vec<_>>() {
            self.destroy(&chunk)?;
        }
        self.held_bytes()
    }

    fn destroy(&self, chunk: &ChunkInfo) -> io::Result<()> {
        let layout = &self.layout;
        let row = layout
            .region(Region::Threads)
            .row(u64::from(chunk.thread.get()), THREAD_BYTES);
        if let Some(row) = row {
            // An entry that was being written is destroyed too, and stays counted.
            let entries = chunk.entries.saturating_add(u64::from(chunk.unfinished));
            self.change(row.saturating_add(EVICTED_ENTRIES), |evicted| {
                evicted.saturating_add(entries)
            })?;
            self.change(row.saturating_add(EVICTED_BYTES), |evicted| {
                evicted.saturating_add(chunk.bytes)
            })?;
            // The thread never left its last chunk, so it never recorded that chunk's number of
            // entries.
            let end = chunk.first_entry.saturating_add(entries);
            self.change(row.saturating_add(SEALED), |sealed| sealed.max(end))?;
        }
        let slot = layout
            .region(Region::Directory)
            .row(u64::from(chunk.index.get()), SLOT_BYTES);
        if let Some(slot) = slot {
            self.file
                .get()?
                .write_all_at(&chunk.generation.wrapping_add(1).to_ne_bytes(), slot)?;
        }
        self.punch_hole(chunk.extent.offset, chunk.extent.len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> io::Result<()> {
        sys::punch_hole(self.file.get()?, offset, len)
    }

    fn change(&self, offset: u64, change: impl Fn(u64) -> u64) -> io::Result<()> {
        let mut word = [0; 8];
        let file = self.file.get()?;
        file.read_exact_at(&mut word, offset)?;
        file.write_all_at(&change(u64::from_ne_bytes(word)).to_ne_bytes(), offset)
    }
}
