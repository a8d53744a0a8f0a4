//! Whose an entry is, and in which chunks the entries of a thread lie.
//!
//! Samples, and markers that one thread recorded for another, lie in the chunks of the thread that recorded them and
//! belong into the tables of the other one. [`Owners`] says whose an entry is, which chunks a thread's tables must look
//! into, and which threads only work for the profiler. Chunks that are flagged are looked through beforehand, and
//! of the others only as many as it takes to find that a thread has something of its own.

use std::collections::{HashMap, HashSet};

use super::periodic::Periodic;
use crate::entry::sample::SampleEntry;
use crate::entry::{Entry, MarkerEntry};
use crate::ids::{ThreadId, ThreadIndex};
use crate::losses::Drops;
use crate::profile::frame_names::thread_without_row;
use crate::reader::{
    ByteSource, ChunkBuffer, ChunkInfo, ChunkRead, PoolReader, ReadError, Snapshot, ThreadInfo,
};
use crate::time::Timestamp;

/// Place of a thread in the snapshot's list; those that are known from samples alone come after them.
pub(super) type Place = usize;

/// A chunk, and the thread that wrote it.
pub(super) type OwnedChunk<'a> = (Place, &'a ChunkInfo);

/// Most threads that are known from samples alone. Samples of more are counted as evicted.
const MAX_SAMPLED_ONLY: usize = 1_000;

/// Where entries of a thread lie, beside its own chunks.
#[derive(Debug, Default)]
struct Visits<'a> {
    markers: Vec<OwnedChunk<'a>>,
    samples: Vec<OwnedChunk<'a>>,
}

/// Who is who among the threads of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Owners<'a> {
    /// Threads by number, with the time since when they had it.
    places: HashMap<ThreadId, Vec<(Timestamp, Place)>>,
    visits: HashMap<Place, Visits<'a>>,
    /// How many entries each thread recorded for others.
    given: HashMap<Place, u64>,
    /// Threads that recorded something, and nothing of their own.
    servants: HashSet<Place>,
    /// Threads that have samples and no row, with their places.
    sampled_only: Vec<ThreadInfo>,
    sampled_only_places: HashMap<ThreadId, Place>,
    rows: usize,
}

impl<'a> Owners<'a> {
    /// Looks through the chunks that are flagged as holding entries of other threads, for those that speak of a
    /// time that `is_wanted`.
    pub(super) fn find<S: ByteSource>(
        reader: &PoolReader<S>,
        snapshot: &'a Snapshot,
        is_wanted: impl Fn(Timestamp) -> bool,
        periodic: &mut Periodic<'a>,
    ) -> Result<Self, ReadError> {
        let mut owners = Self { rows: snapshot.threads.len(), ..Self::default() };
        for (place, thread) in snapshot.threads.iter().enumerate() {
            owners.places.entry(thread.tid).or_default().push((thread.registered, place));
        }
        owners.places.values_mut().for_each(|places| places.sort_unstable());
        let mut buffer = ChunkBuffer::default();
        for (place, thread) in snapshot.threads.iter().enumerate() {
            let (mut has_own, mut is_servant) = (thread.is_main, false);
            for chunk in thread.chunks.iter().filter(|chunk| chunk.entries > 0) {
                if has_own && !chunk.has_foreign {
                    continue;
                }
                let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer)? else { continue };
                for entry in entries {
                    let is_own = owners.note((place, chunk), &entry, &is_wanted, periodic);
                    (has_own, is_servant) = (has_own || is_own, is_servant || !is_own);
                    if has_own && !chunk.has_foreign {
                        break;
                    }
                }
            }
            if is_servant && !has_own {
                owners.servants.insert(place);
            }
        }
        Ok(owners)
    }

    /// The thread whose table a marker of `recorder`'s belongs into. A thread number that
    /// nobody has leaves it with the recorder.
    pub(super) fn owner(&self, recorder: Place, marker: &MarkerEntry<'_>) -> Place {
        let known = marker.foreign.and_then(|tid| self.with_number(tid, marker.timing.last()));
        known.unwrap_or(recorder)
    }

    /// The thread whose sample it is; `None` if there are too many that nothing else is known of.
    pub(super) fn owner_of_sample(&self, recorder: Place, sample: &SampleEntry<'_>) -> Option<Place> {
        let Some(tid) = sample.foreign else { return Some(recorder) };
        self.with_number(tid, sample.at).or_else(|| self.sampled_only_places.get(&tid).copied())
    }

    /// Of threads that had one number in turn, the last that had it by then.
    fn with_number(&self, tid: ThreadId, at: Timestamp) -> Option<Place> {
        let places = self.places.get(&tid)?;
        let by_then = places.iter().rev().find(|(since, _)| *since <= at);
        by_then.or(places.first()).map(|(_, place)| *place)
    }

    /// The chunks of other threads that hold markers of `place`.
    pub(super) fn marker_chunks(&self, place: Place) -> &[OwnedChunk<'a>] {
        self.visits.get(&place).map(|visits| visits.markers.as_slice()).unwrap_or_default()
    }

    /// All chunks that hold samples of `place`.
    pub(super) fn sample_chunks(&self, place: Place) -> &[OwnedChunk<'a>] {
        self.visits.get(&place).map(|visits| visits.samples.as_slice()).unwrap_or_default()
    }

    /// How many entries `place` recorded for other threads.
    pub(super) fn given(&self, place: Place) -> u64 {
        self.given.get(&place).copied().unwrap_or(0)
    }

    /// Whether there is something of the thread's own to show. A thread that only samples others has nothing.
    pub(super) fn is_shown(&self, place: Place) -> bool {
        !self.servants.contains(&place) || self.visits.contains_key(&place)
    }

    /// Threads of which there are samples and nothing else, by their places.
    pub(super) fn sampled_only(&self) -> impl Iterator<Item = (Place, &ThreadInfo)> {
        (self.rows..).zip(&self.sampled_only)
    }

    /// Notes where an entry belongs; says whether it is the recorder's own.
    fn note(
        &mut self,
        chunk: OwnedChunk<'a>,
        entry: &Entry<'_>,
        is_wanted: impl Fn(Timestamp) -> bool,
        periodic: &mut Periodic<'a>,
    ) -> bool {
        let wanted = entry.last().is_some_and(is_wanted);
        let (owner, is_sample) = match entry {
            Entry::Marker(marker) => (self.owner(chunk.0, marker), false),
            Entry::Sample(sample) => {
                if wanted {
                    self.note_sampled_only(sample);
                }
                let Some(owner) = self.owner_of_sample(chunk.0, sample) else { return false };
                (owner, true)
            }
            Entry::Counters(_) | Entry::Overhead(_) => {
                if wanted {
                    periodic.note(chunk, entry);
                }
                return false;
            }
            Entry::Allocation(_) | Entry::Unknown(_) => return true,
        };
        if wanted {
            self.note_visit(chunk, owner, is_sample);
        }
        owner == chunk.0
    }

    fn note_visit(&mut self, chunk: OwnedChunk<'a>, owner: Place, is_sample: bool) {
        if owner != chunk.0 {
            *self.given.entry(chunk.0).or_default() += 1;
        } else if !is_sample {
            return; // among its own chunks anyway
        }
        let visits = self.visits.entry(owner).or_default();
        let visits = if is_sample { &mut visits.samples } else { &mut visits.markers };
        if visits.last() != Some(&chunk) {
            visits.push(chunk);
        }
    }

    /// Gives a thread that has no row a place, for the time that its samples span.
    fn note_sampled_only(&mut self, sample: &SampleEntry<'_>) {
        let Some(tid) = sample.foreign.filter(|tid| !self.places.contains_key(tid)) else { return };
        let known = self.sampled_only_places.get(&tid).and_then(|place| place.checked_sub(self.rows));
        if let Some(thread) = known.and_then(|place| self.sampled_only.get_mut(place)) {
            thread.registered = thread.registered.min(sample.at);
            thread.ended = thread.ended.max(Some(sample.at));
        } else if self.sampled_only.len() < MAX_SAMPLED_ONLY {
            self.sampled_only_places.insert(tid, self.rows.saturating_add(self.sampled_only.len()));
            self.sampled_only.push(without_row(tid, sample.at));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Timing;
    use crate::entry::stack::Stack;
    use crate::ids::DefinitionId;

    fn marker(foreign: Option<u64>, at: u64) -> MarkerEntry<'static> {
        let timing = Timing::Instant(Timestamp::from_raw(at));
        let foreign = foreign.map(ThreadId::new);
        MarkerEntry {
            site: DefinitionId::NONE,
            timing,
            foreign,
            name: None,
            payload: &[],
            stack: Stack::EMPTY,
        }
    }

    #[test]
    fn a_reused_thread_number_means_the_thread_that_had_it_at_the_time() {
        let mut owners = Owners::default();
        let lives = vec![(Timestamp::from_raw(10), 4), (Timestamp::from_raw(20), 7)];
        owners.places.insert(ThreadId::new(99), lives);
        let owner = |at| owners.owner(0, &marker(Some(99), at));
        assert_eq!([5, 10, 19, 20, 1_000].map(owner), [4, 4, 4, 7, 7]);
    }

    #[test]
    fn without_a_known_thread_number_the_recorder_keeps_the_marker() {
        let owners = Owners::default();
        assert_eq!(owners.owner(3, &marker(None, 1)), 3);
        assert_eq!(owners.owner(3, &marker(Some(99), 1)), 3);
    }
}
