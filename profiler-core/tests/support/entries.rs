//! The entries of a pool, one by one.

use std::fs::File;

use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::{SampleEntry, Stacks};
use profiler_core::internal::reader::{ChunkBuffer, PoolReader, Snapshot};
use profiler_core::sampler::Frame;

/// Visits all entries of a snapshot, except those of chunks that were destroyed after it.
pub(crate) fn for_each_entry(
    reader: &PoolReader<File>,
    snapshot: &Snapshot,
    mut visit: impl FnMut(Entry<'_>),
) {
    let mut buffer = ChunkBuffer::default();
    for chunk in snapshot.chunks() {
        if let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() {
            entries.for_each(&mut visit);
        }
    }
}

/// As [`for_each_entry`], visits all samples, with the frames of their stacks.
pub(crate) fn for_each_sample(
    reader: &PoolReader<File>,
    snapshot: &Snapshot,
    mut visit: impl FnMut(&SampleEntry<'_>, &[Frame]),
) {
    let (mut stacks, mut buffer) = (Stacks::default(), ChunkBuffer::default());
    for chunk in snapshot.chunks() {
        if let Some(entries) = reader.read_chunk(chunk, &mut buffer).unwrap() {
            stacks.begin_chunk();
            for entry in entries {
                if let Entry::Sample(sample) = entry {
                    visit(&sample, stacks.of(&sample));
                }
            }
        }
    }
}
