//! Markers that one thread recorded for another.
//!
//! They lie in the chunks of the thread that recorded them and belong into the table of the
//! other one. [`Owners`] says whose a marker is, and which chunks of other threads a thread's
//! table must look into; only chunks that are flagged are ever read more than once.

use std::collections::HashMap;

use crate::entry::{Entry, MarkerEntry};
use crate::ids::ThreadId;
use crate::reader::{ByteSource, ChunkBuffer, ChunkInfo, ChunkRead, PoolReader, ReadError, Snapshot};
use crate::time::Timestamp;

/// Place of a thread in the snapshot's list.
pub(super) type Place = usize;

/// A chunk, and the thread that wrote it.
pub(super) type OwnedChunk<'a> = (Place, &'a ChunkInfo);

/// Who is who among the threads of a snapshot.
#[derive(Debug, Default)]
pub(super) struct Owners<'a> {
    /// Threads by number, with the time since when they had it.
    places: HashMap<ThreadId, Vec<(Timestamp, Place)>>,
    /// Chunks of other threads with markers for this one.
    visits: HashMap<Place, Vec<OwnedChunk<'a>>>,
    /// How many markers each thread recorded for others.
    given: HashMap<Place, u64>,
}

impl<'a> Owners<'a> {
    /// Looks through the chunks that are flagged as holding markers of other threads, for
    /// those that are `wanted`.
    pub(super) fn find<S: ByteSource>(
        reader: &PoolReader<S>,
        snapshot: &'a Snapshot,
        wanted: impl Fn(&MarkerEntry<'_>) -> bool,
    ) -> Result<Self, ReadError> {
        let mut owners = Self::default();
        for (place, thread) in snapshot.threads.iter().enumerate() {
            owners.places.entry(thread.tid).or_default().push((thread.registered, place));
        }
        owners.places.values_mut().for_each(|places| places.sort_unstable());
        let mut buffer = ChunkBuffer::default();
        for (place, thread) in snapshot.threads.iter().enumerate() {
            for chunk in thread.chunks.iter().filter(|chunk| chunk.has_foreign) {
                if let ChunkRead::Entries(entries) = reader.read_chunk(chunk, &mut buffer)? {
                    markers(entries).filter(&wanted).for_each(|marker| owners.note((place, chunk), &marker));
                }
            }
        }
        Ok(owners)
    }

    /// The thread whose table a marker of `recorder`'s belongs into. A thread number that
    /// nobody has leaves it with the recorder; of threads that had one number in turn, it is
    /// the last that had it by then.
    pub(super) fn owner(&self, recorder: Place, marker: &MarkerEntry<'_>) -> Place {
        let Some(places) = marker.foreign.and_then(|tid| self.places.get(&tid)) else { return recorder };
        let at = marker.timing.last();
        let by_then = places.iter().rev().find(|(since, _)| *since <= at);
        by_then.or(places.first()).map_or(recorder, |(_, place)| *place)
    }

    /// The chunks of other threads that hold markers of `place`.
    pub(super) fn visits(&self, place: Place) -> impl Iterator<Item = OwnedChunk<'a>> {
        self.visits.get(&place).into_iter().flatten().copied()
    }

    /// How many markers `place` recorded for other threads.
    pub(super) fn given(&self, place: Place) -> u64 {
        self.given.get(&place).copied().unwrap_or(0)
    }

    fn note(&mut self, chunk: OwnedChunk<'a>, marker: &MarkerEntry<'_>) {
        let owner = self.owner(chunk.0, marker);
        if owner != chunk.0 {
            *self.given.entry(chunk.0).or_default() += 1;
            let visits = self.visits.entry(owner).or_default();
            if visits.last() != Some(&chunk) {
                visits.push(chunk);
            }
        }
    }
}

/// The markers among entries; what this build does not know is passed over.
pub(super) fn markers<'e>(entries: impl Iterator<Item = Entry<'e>>) -> impl Iterator<Item = MarkerEntry<'e>> {
    entries.filter_map(|entry| match entry {
        Entry::Marker(marker) => Some(marker),
        _ => None,
    })
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
