//! Reads all contents of a pool, as a profile writer does, and checks that the cost is bounded.
//!
//! Used by `hostile_pools`.

use std::cell::Cell;
use std::io;

use profiler_core::ids::ProcessId;
use profiler_core::internal::entry::sample::Stacks;
use profiler_core::internal::entry::stack::MAX_FRAMES;
use profiler_core::internal::entry::{self, Entry};
use profiler_core::internal::payload::{FieldValue, PayloadReader};
use profiler_core::internal::pool::layout;
use profiler_core::internal::reader::groups::{GroupReader, GroupTotals};
use profiler_core::internal::reader::{ByteSource, ChunkBuffer, PoolReader, Snapshot};
use profiler_gecko::gecko::{ProcessPart, merge_categories};
use profiler_gecko::{FailureLatch, ProcessRole, ProfileSpec, ProgressCell};
use profiler_json::JsonWriter;

/// Counts the bytes read, to find a pool that makes its reader read without end.
struct Counted<'a> {
    bytes: &'a [u8],
    read: Cell<u64>,
}

impl ByteSource for Counted<'_> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        assert!(
            buffer.len() <= self.bytes.len(),
            "a buffer larger than the pool"
        );
        self.read.set(self.read.get() + buffer.len() as u64);
        self.bytes.read_at(buffer, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }
}

fn read_panics(reader: &PoolReader<impl ByteSource>, snapshot: &Snapshot) {
    for panic in reader.panics().unwrap() {
        let texts = [&panic.file, &panic.thread, &panic.message];
        let bytes: usize = texts.into_iter().map(String::len).sum();
        assert!(bytes <= layout::PANIC_TEXT_WORDS * 8, "{panic:?}");
        reader.is_latest_of_its_thread(&panic, snapshot);
    }
}

/// Reads everything, entry by entry and then as a profile. Returns `false` if the bytes are not a
/// pool of this version.
pub(crate) fn read_everything(bytes: &[u8]) -> bool {
    let source = Counted {
        bytes,
        read: Cell::new(0),
    };
    let Ok(reader) = PoolReader::open(&source) else {
        return false;
    };
    let Ok(snapshot) = reader.snapshot() else {
        return true;
    };
    read_panics(&reader, &snapshot);
    let counts = snapshot.counts();
    assert!(counts.recorded() >= counts.delivered);
    let before = source.read.get();
    // Tables and names are read a few times if they seem to change, chunks once.
    assert!(
        before <= 32 * bytes.len() as u64,
        "{before} bytes read for a snapshot"
    );
    read_groups(&source);
    let mut buffer = ChunkBuffer::default();
    let mut stacks = Stacks::default();
    for chunk in snapshot.chunks() {
        stacks.begin_chunk();
        if let Ok(Some(entries)) = reader.read_chunk(chunk, &mut buffer) {
            entries.for_each(|entry| read_entry(&entry, &mut stacks));
        }
    }
    let read = source.read.get() - before;
    assert!(
        read <= 2 * bytes.len() as u64,
        "{read} bytes of entries read from {}",
        bytes.len()
    );
    write_profile(&reader, &snapshot);
    true
}

/// Writes a profile of the pool, and discards it.
fn write_profile(reader: &PoolReader<&Counted<'_>>, snapshot: &Snapshot) {
    let mut categories = Vec::new();
    merge_categories(&mut categories, &snapshot.definitions);
    // The anchor does not come from a clock, so it is the same in every run.
    let later = snapshot.header.clock.start;
    let spec = ProfileSpec {
        later,
        since: None,
        categories,
    };
    let role = ProcessRole {
        pid: ProcessId::new(u32::MAX - 1),
        name: String::new(),
        is_root: true,
    };
    let latch = FailureLatch::default();
    let progress = ProgressCell::new("");
    let part = ProcessPart {
        clock: snapshot.header.clock,
        ..ProcessPart::new(reader, snapshot, &spec, &role, &latch)
    };
    let mut out = JsonWriter::new(std::io::sink());
    if let Ok(summary) = part.write(&mut out, progress.logger()) {
        assert!(summary.counts.recorded() >= summary.counts.delivered);
    }
}

fn read_entry(entry: &Entry<'_>, stacks: &mut Stacks) {
    match entry {
        Entry::Marker(marker) => {
            assert!(marker.stack.frames().len() < 1 << 16);
            read_payload(marker.payload);
        }
        Entry::Sample(sample) => assert!(stacks.of(sample).len() <= MAX_FRAMES),
        Entry::Allocation(allocation) => {
            assert_eq!(allocation.stack.frames().count(), allocation.stack.len())
        }
        Entry::Counters(counters) => assert!(counters.values().count() < 1 << 20),
        _ => {}
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
    assert!(
        values <= payload.len() + 1,
        "{values} values in {} bytes",
        payload.len()
    );
}

/// The number of values in a list, at all depths.
fn walk(value: &FieldValue<'_>) -> usize {
    match value {
        FieldValue::List(items) => items.clone().map(|item| 1 + walk(&item)).sum(),
        _ => 0,
    }
}

/// Reads the totals of groups and adds them up. The sums must be consistent for any cell contents.
fn read_groups(source: &Counted<'_>) {
    let Ok(mut reader) = GroupReader::open(source) else {
        return;
    };
    for _ in 0..2 {
        for row in reader.read().into_iter().flat_map(|found| found.groups) {
            let sum = row.totals.plus(&row.totals).since(&GroupTotals::nothing());
            assert!(sum.longest_ns >= row.totals.histogram.longest_ns());
        }
    }
}

/// Reads a file of the corpus; its name begins with its kind. Returns whether it is a pool.
pub(crate) fn read_any(name: &str, bytes: &[u8]) -> bool {
    match name.split('-').next() {
        Some("pool") => return read_everything(&unpacked(bytes)),
        Some("entry") => {
            if let Ok((entry, _)) = entry::decode(bytes) {
                read_entry(&entry, &mut Stacks::default());
            }
        }
        Some("payload") => read_payload(bytes),
        _ => panic!("{name} has an unknown kind"),
    }
    false
}

/// A sparse pool from a short file: the first word is the length of the pool, followed by pairs of
/// an offset and a word.
fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let Some((len, patches)) = words.split_first() else {
        return Vec::new();
    };
    let mut pool = vec![0; usize::try_from(*len).unwrap().min(64 << 20)];
    for patch in patches.chunks_exact(2) {
        let at = usize::try_from(patch[0]).unwrap_or(usize::MAX);
        if let Some(place) = pool.get_mut(at..at.saturating_add(8)) {
            place.copy_from_slice(&patch[1].to_ne_bytes());
        }
    }
    pool
}
