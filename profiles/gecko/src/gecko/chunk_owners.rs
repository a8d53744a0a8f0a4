//! Finds the chunks that hold the entries of each thread.
//!
//! Samples, and markers that one thread recorded for another, are in the chunks of the thread that
//! recorded them, but belong to the tables of the other thread. [`ChunkOwners`] lists the chunks
//! from which a thread's tables must be read, and the threads that only record for others. Chunks
//! that are flagged as holding entries of other threads are read beforehand. Chunks without the
//! flag are read only until an entry of the thread itself is found.

use std::collections::{HashMap, HashSet};

use super::periodic::Periodic;
use crate::frame_names::thread_without_row;
use crate::model::{Place, ThreadOwners};
use profiler_core::ids::{ThreadId, ThreadIndex};
use profiler_core::internal::entry::Entry;
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::reader::{
    ByteSource, ChunkBuffer, ChunkInfo, PoolReader, ReadError, Snapshot, ThreadInfo,
};
use profiler_core::session::Drops;
use profiler_core::time::Timestamp;

/// A chunk, and the thread that wrote it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OwnedChunk<'a> {
    /// The thread that wrote it.
    pub(super) recorder: Place,
    /// The chunk.
    pub(super) info: &'a ChunkInfo,
}

/// The chunks with entries of a thread, except the chunks with its own markers.
#[derive(Debug, Default)]
struct Visits<'a> {
    markers: Vec<OwnedChunk<'a>>,
    samples: Vec<OwnedChunk<'a>>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct ChunkOwners<'a> {
    pub(super) threads: ThreadOwners,
    visits: HashMap<Place, Visits<'a>>,
    /// How many entries each thread recorded for others.
    given: HashMap<Place, u64>,
    /// Threads that recorded entries for others, and none of their own.
    servants: HashSet<Place>,
    /// How many entries outside of the profile's range were found in the chunks of each thread.
    /// Complete only for servants, all of whose chunks are read.
    outside: HashMap<Place, u64>,
    /// Threads that have samples and no row, with the time that their samples span.
    sampled_only: Vec<ThreadInfo>,
}

impl<'a> ChunkOwners<'a> {
    /// Reads the chunks that are flagged as holding entries of other threads, and notes the entries
    /// whose time `is_wanted`.
    pub(super) fn find<S: ByteSource>(
        reader: &PoolReader<S>,
        snapshot: &'a Snapshot,
        is_wanted: impl Fn(Timestamp) -> bool,
        periodic: &mut Periodic<'a>,
    ) -> Result<Self, ReadError> {
        let mut owners = Self {
            threads: ThreadOwners::new(snapshot),
            ..Self::default()
        };
        let mut buffer = ChunkBuffer::default();
        for (place, thread) in snapshot.threads.iter().enumerate() {
            let mut has_own = thread.is_main;
            let mut is_servant = false;
            for chunk in thread.chunks.iter().filter(|chunk| chunk.entries > 0) {
                if has_own && !chunk.has_foreign {
                    continue;
                }
                let Some(entries) = reader.read_chunk(chunk, &mut buffer)? else {
                    continue;
                };
                let owned = OwnedChunk {
                    recorder: place,
                    info: chunk,
                };
                for entry in entries {
                    let is_own = owners.note(owned, &entry, &is_wanted, periodic);
                    has_own |= is_own;
                    is_servant |= !is_own;
                    if has_own && !chunk.has_foreign {
                        break;
                    }
                }
            }
            // The sampler's thread may have lost all its entries.
            if !has_own && (is_servant || thread.is_servant()) {
                owners.servants.insert(place);
            }
        }
        Ok(owners)
    }

    /// The chunks of other threads that hold markers of `place`.
    pub(super) fn marker_chunks(&self, place: Place) -> &[OwnedChunk<'a>] {
        self.visits
            .get(&place)
            .map(|visits| visits.markers.as_slice())
            .unwrap_or_default()
    }

    /// All chunks that hold samples of `place`.
    pub(super) fn sample_chunks(&self, place: Place) -> &[OwnedChunk<'a>] {
        self.visits
            .get(&place)
            .map(|visits| visits.samples.as_slice())
            .unwrap_or_default()
    }

    /// How many entries `place` recorded for other threads.
    pub(super) fn given(&self, place: Place) -> u64 {
        self.given.get(&place).copied().unwrap_or(0)
    }

    /// How many entries of a thread that is not shown are outside of the profile's range.
    pub(super) fn outside(&self, place: Place) -> Option<u64> {
        let outside = self.outside.get(&place).copied().unwrap_or(0);
        (!self.is_shown(place)).then_some(outside)
    }

    /// Whether the thread has entries of its own to show. A thread that only samples others has
    /// none.
    pub(super) fn is_shown(&self, place: Place) -> bool {
        !self.servants.contains(&place) || self.visits.contains_key(&place)
    }

    /// Threads that are known from samples only, with their places.
    pub(super) fn sampled_only(&self) -> impl Iterator<Item = (Place, &ThreadInfo)> {
        self.threads
            .sampled_only()
            .map(|(place, _)| place)
            .zip(&self.sampled_only)
    }

    /// Notes the owner of an entry; returns whether the entry is the recorder's own.
    fn note(
        &mut self,
        chunk: OwnedChunk<'a>,
        entry: &Entry<'_>,
        is_wanted: impl Fn(Timestamp) -> bool,
        periodic: &mut Periodic<'a>,
    ) -> bool {
        let wanted = entry.last().is_some_and(is_wanted);
        let is_outside = !wanted && entry.last().is_some();
        *self.outside.entry(chunk.recorder).or_default() += u64::from(is_outside);
        let (owner, is_sample) = match entry {
            Entry::Marker(marker) => (self.threads.of_marker(chunk.recorder, marker), false),
            Entry::Sample(sample) => {
                let owner = match wanted {
                    true => self.note_sample(chunk.recorder, sample),
                    false => self.threads.of_sample(chunk.recorder, sample),
                };
                let Some(owner) = owner else { return false };
                (owner, true)
            }
            Entry::Counters(_) | Entry::Overhead(_) => {
                if wanted {
                    periodic.note(chunk, entry);
                }
                return false;
            }
            Entry::Allocation(_) | Entry::Trace(_) | Entry::Unknown(_) => return true,
        };
        if wanted {
            self.note_visit(chunk, owner, is_sample);
        }
        owner == chunk.recorder
    }

    fn note_visit(&mut self, chunk: OwnedChunk<'a>, owner: Place, is_sample: bool) {
        if owner != chunk.recorder {
            *self.given.entry(chunk.recorder).or_default() += 1;
        } else if !is_sample {
            return; // a thread's own chunks are always read for its markers
        }
        let visits = self.visits.entry(owner).or_default();
        let visits = if is_sample {
            &mut visits.samples
        } else {
            &mut visits.markers
        };
        if visits.last() != Some(&chunk) {
            visits.push(chunk);
        }
    }

    /// The thread of a sample. A thread without a row gets the lifetime that its samples span.
    fn note_sample(&mut self, recorder: Place, sample: &SampleEntry<'_>) -> Option<Place> {
        let owner = self.threads.note_sample(recorder, sample, || true)?;
        if let (Some(index), Some(tid)) = (self.threads.sampled_only_index(owner), sample.foreign) {
            match self.sampled_only.get_mut(index) {
                Some(thread) => {
                    thread.registered = thread.registered.min(sample.at);
                    thread.ended = thread.ended.max(Some(sample.at));
                }
                None => self.sampled_only.push(without_row(tid, sample.at)),
            }
        }
        Some(owner)
    }
}

fn without_row(tid: ThreadId, at: Timestamp) -> ThreadInfo {
    ThreadInfo {
        index: ThreadIndex::PROCESS,
        tid,
        name: thread_without_row(tid),
        is_main: false,
        registered: at,
        ended: Some(at),
        dropped: Drops::default(),
        evicted: 0,
        sealed: 0,
        chunks: Vec::new(),
    }
}
