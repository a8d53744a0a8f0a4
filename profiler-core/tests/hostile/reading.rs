//! Reads all that a pool says, the way a profile writer does, and watches what that costs.

use std::cell::Cell;
use std::io;

use profiler_core::entry::{self, Entry};
use profiler_core::marker::payload::{FieldValue, PayloadReader};
use profiler_core::reader::{ByteSource, ChunkBuffer, ChunkRead, PoolReader};

/// Counts what is read, so that a pool that makes its reader read for ever is found.
struct Counted<'a> {
    bytes: &'a [u8],
    read: Cell<u64>,
}

impl ByteSource for Counted<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(buffer.len() <= self.bytes.len(), "a buffer larger than the pool");
        self.read.set(self.read.get() + buffer.len() as u64);
        self.bytes.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

/// Reads everything; false if the bytes are no pool of this version.
pub(crate) fn read_everything(bytes: &[u8]) -> bool {
    let source = Counted { bytes, read: Cell::new(0) };
    let Ok(reader) = PoolReader::open(&source) else { return false };
    let Ok(snapshot) = reader.snapshot() else { return true };
    let counts = snapshot.counts();
    assert!(counts.recorded() >= counts.delivered);
    let before = source.read.get();
    // Tables and names are looked at a few times while they seem to change, chunks once.
    assert!(before <= 32 * bytes.len() as u64, "{before} bytes read for a snapshot");
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.chunks() {
        if let Ok(ChunkRead::Entries(entries)) = reader.read_chunk(chunk, &mut buffer) {
            entries.for_each(|entry| read_entry(&entry));
        }
    }
    let read = source.read.get() - before;
    assert!(read <= 2 * bytes.len() as u64, "{read} bytes of entries read from {}", bytes.len());
    true
}

fn read_entry(entry: &Entry<'_>) {
    if let Entry::Marker(marker) = entry {
        read_payload(marker.payload);
    }
}

fn read_payload(payload: &[u8]) {
    let mut values = 0;
    for value in PayloadReader::new(payload) {
        values += 1;
        if let Ok(value) = value {
            values += walk(&value);
        }
    }
    assert!(values <= payload.len() + 1, "{values} values in {} bytes", payload.len());
}

/// How many values a list holds, at all depths.
fn walk(value: &FieldValue<'_>) -> usize {
    match value {
        FieldValue::List(items) => items.clone().map(|item| 1 + walk(&item)).sum(),
        _ => 0,
    }
}

/// Reads a file of the corpus as what its name begins with; says whether it is a pool.
pub(crate) fn read_any(name: &str, bytes: &[u8]) -> bool {
    match name.split('-').next() {
        Some("pool") => return read_everything(&unpacked(bytes)),
        Some("entry") => drop(entry::decode(bytes).map(|(entry, _)| read_entry(&entry))),
        Some("payload") => read_payload(bytes),
        _ => panic!("what is {name}?"),
    }
    false
}

/// A sparse pool from a short file: pairs of (offset, eight bytes) in a pool of the first word's
/// length.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let words: Vec<u64> =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    let Some((len, patches)) = words.split_first() else { return Vec::new() };
    let mut pool = vec![0; usize::try_from(*len).unwrap().min(64 << 20)];
    for patch in patches.chunks_exact(2) {
        let at = usize::try_from(patch[0]).unwrap_or(usize::MAX);
        if let Some(place) = pool.get_mut(at..at.saturating_add(8)) {
            place.copy_from_slice(&patch[1].to_ne_bytes());
        }
    }
    pool
}
