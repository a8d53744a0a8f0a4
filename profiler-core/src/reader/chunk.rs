//! Reads the entries of one chunk. Called by `snapshot`; `follow` also decodes with [`Entries`].
//!
//! The copy is accepted only if the chunk's generation is the same afterwards. The committed bytes
//! of an accepted copy never change, so entries can be decoded at any time.

use std::io;

use super::directory::{self, ChunkInfo};
use super::source::ByteSource;
use crate::entry::{self, Entry};
use crate::pool::layout::Layout;
use profiler_trace::TraceContext;

/// Memory for one chunk's copy, reused from chunk to chunk.
#[derive(Debug, Default)]
pub struct ChunkBuffer(Vec<u8>);

/// Copies the committed part of a chunk. `None` if the chunk was destroyed meanwhile.
pub(super) fn read<'a>(
    source: &impl ByteSource,
    layout: &Layout,
    chunk: &ChunkInfo,
    buffer: &'a mut ChunkBuffer,
) -> io::Result<Option<Entries<'a>>> {
    let len = usize::try_from(chunk.bytes).unwrap_or(0);
    buffer.0.resize(len, 0);
    source.read_at(&mut buffer.0, chunk.extent.offset)?;
    crate::sync::full_fence();
    if directory::generation(source, layout, chunk.index)? != chunk.generation {
        return Ok(None);
    }
    Ok(Some(Entries::new(&buffer.0, chunk.entries)))
}

/// The entries of a chunk, in the order in which they were committed.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    left: u64,
    damaged: bool,
    /// The trace that the entries so far have stated.
    trace: Option<TraceContext>,
}

impl<'a> Entries<'a> {
    /// The first `entries` entries in `bytes`, which were copied from a chunk and re-checked.
    pub(super) const fn new(bytes: &'a [u8], entries: u64) -> Self {
        Self {
            bytes,
            at: 0,
            left: entries,
            damaged: false,
            trace: None,
        }
    }

    /// These entries, which follow others of their chunk that have stated this trace last.
    pub(super) const fn after(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }

    /// The trace that the entries so far have stated last.
    pub(super) const fn trace(&self) -> Option<TraceContext> {
        self.trace
    }
}

impl Entries<'_> {
    /// Whether decoding stopped early because the bytes are not entries. Never true for a pool that
    /// only our writer touched.
    pub const fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// The number of entries that have not been decoded yet.
    pub const fn left(&self) -> u64 {
        self.left
    }
}

impl<'a> Entries<'a> {
    /// The next entry with its bytes, which can be decoded again.
    pub fn next_with_bytes(&mut self) -> Option<(Entry<'a>, &'a [u8])> {
        if self.left == 0 || self.damaged {
            return None;
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match entry::decode(rest) {
            Ok((entry, len)) => {
                self.at = self.at.saturating_add(len);
                self.left -= 1;
                let entry = self.with_trace(entry);
                Some((entry, rest.get(..len).unwrap_or_default()))
            }
            Err(_) => {
                self.damaged = true;
                None
            }
        }
    }
}

impl<'a> Entries<'a> {
    /// Adds its trace to a marker.
    const fn with_trace(&mut self, entry: Entry<'a>) -> Entry<'a> {
        match entry {
            Entry::Trace(stated) => {
                self.trace = stated.trace;
                entry
            }
            Entry::Marker(mut marker) => {
                marker.trace = self.trace;
                Entry::Marker(marker)
            }
            _ => entry,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.next_with_bytes().map(|(entry, _)| entry)
    }
}
