//! Finds the chunks with entries of the whole process: counters over time, and the sampler's costs.
//!
//! The chunks are noted while the threads are read, and read again for each table after the threads
//! are written. Memory grows with the number of chunks, not with the number of entries.

use std::collections::HashMap;

use super::chunk_owners::OwnedChunk;
use profiler_core::ids::CounterIndex;
use profiler_core::internal::entry::Entry;
use profiler_core::internal::reader::CounterInfo;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Periodic<'a> {
    all: Vec<OwnedChunk<'a>>,
    /// Chunks by counter, for counters with a name.
    counters: HashMap<CounterIndex, Vec<OwnedChunk<'a>>>,
}

impl<'a> Periodic<'a> {
    /// No chunks yet, for a process that has these counters.
    pub(super) fn new(counters: &[CounterInfo]) -> Self {
        let counters = counters
            .iter()
            .map(|counter| (counter.definition.cell, Vec::new()))
            .collect();
        Self {
            all: Vec::new(),
            counters,
        }
    }

    /// Notes the chunk of an entry that belongs to the whole process; returns whether it does.
    pub(super) fn note(&mut self, chunk: OwnedChunk<'a>, entry: &Entry<'_>) -> bool {
        match entry {
            Entry::Counters(counters) => {
                let cells = counters.values().map(|counter| counter.cell);
                cells.for_each(|cell| {
                    self.counters
                        .get_mut(&cell)
                        .into_iter()
                        .for_each(|known| push(known, chunk))
                });
            }
            Entry::Overhead(_) => {}
            _ => return false,
        }
        push(&mut self.all, chunk);
        true
    }

    /// All chunks that hold such entries, in order of time.
    pub(super) fn chunks(&self) -> Vec<OwnedChunk<'a>> {
        in_order(&self.all)
    }

    /// The chunks that hold values of a counter, in order of time.
    pub(super) fn of(&self, cell: CounterIndex) -> Vec<OwnedChunk<'a>> {
        self.counters
            .get(&cell)
            .map(|chunks| in_order(chunks))
            .unwrap_or_default()
    }
}

fn push<'a>(chunks: &mut Vec<OwnedChunk<'a>>, chunk: OwnedChunk<'a>) {
    if chunks.last() != Some(&chunk) {
        chunks.push(chunk);
    }
}

/// Sorts chunks by time. Removes duplicates: a chunk may have been noted both before its thread was
/// written and while it was written.
fn in_order<'a>(chunks: &[OwnedChunk<'a>]) -> Vec<OwnedChunk<'a>> {
    let mut chunks = chunks.to_vec();
    chunks.sort_by_key(|chunk| (chunk.info.start, chunk.info.index));
    chunks.dedup();
    chunks
}
