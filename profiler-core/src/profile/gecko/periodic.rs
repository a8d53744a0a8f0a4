//! Where the entries of the whole process lie: counters over time, and what the sampler cost.
//!
//! Noted while the threads are read, read again for each table when the threads are written. Memory
//! grows with chunks, not with entries.

use std::collections::HashMap;

use super::chunk_owners::OwnedChunk;
use crate::entry::Entry;
use crate::ids::CounterIndex;
use crate::reader::CounterInfo;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Periodic<'a> {
    all: Vec<OwnedChunk<'a>>,
    /// By counter; only those that have a name.
    counters: HashMap<CounterIndex, Vec<OwnedChunk<'a>>>,
}

impl<'a> Periodic<'a> {
    /// For a process that has these counters.
    pub(super) fn new(counters: &[CounterInfo]) -> Self {
        let counters = counters.iter().map(|counter| (counter.definition.cell, Vec::new())).collect();
        Self { all: Vec::new(), counters }
    }

    /// Notes that an entry is there, if it is of these kinds; says so.
    pub(super) fn note(&mut self, chunk: OwnedChunk<'a>, entry: &Entry<'_>) -> bool {
        match entry {
            Entry::Counters(counters) => {
                let cells = counters.values().map(|counter| counter.cell);
                cells.for_each(|cell| {
                    self.counters.get_mut(&cell).into_iter().for_each(|known| push(known, chunk))
                });
            }
            Entry::Overhead(_) => {}
            _ => return false,
        }
        push(&mut self.all, chunk);
        true
    }

    /// All chunks that hold such entries, in the order of time.
    pub(super) fn chunks(&self) -> Vec<OwnedChunk<'a>> {
        in_order(&self.all)
    }

    /// Those that hold values of a counter.
    pub(super) fn of(&self, cell: CounterIndex) -> Vec<OwnedChunk<'a>> {
        self.counters.get(&cell).map(|chunks| in_order(chunks)).unwrap_or_default()
    }
}

fn push<'a>(chunks: &mut Vec<OwnedChunk<'a>>, chunk: OwnedChunk<'a>) {
    if chunks.last() != Some(&chunk) {
        chunks.push(chunk);
    }
}

/// A chunk may have been noted twice: before its thread was written, and when it was.
fn in_order<'a>(chunks: &[OwnedChunk<'a>]) -> Vec<OwnedChunk<'a>> {
    let mut chunks = chunks.to_vec();
    chunks.sort_by_key(|(_, chunk)| (chunk.start, chunk.index));
    chunks.dedup();
    chunks
}
