//! To which thread an entry belongs: the one that recorded it, or the one that it names.
//!
//! The sampler records samples of other threads, and a thread can record markers for another one.
//! Both formats ask [`ThreadOwners`] once per entry.

use std::collections::HashMap;

use crate::entry::MarkerEntry;
use crate::entry::sample::SampleEntry;
use crate::ids::ThreadId;
use crate::reader::Snapshot;
use crate::time::Timestamp;

/// Place of a thread in the snapshot's list. Threads that are known from samples alone follow.
pub type Place = usize;

/// Most threads of a process that are known from samples alone. Samples of more count as evicted.
const MAX_SAMPLED_ONLY: usize = 1_000;

/// The threads of one process by their numbers.
#[derive(Debug, Default)]
pub struct ThreadOwners {
    /// With the time since when a thread had the number.
    places: HashMap<ThreadId, Vec<(Timestamp, Place)>>,
    rows: usize,
    /// Threads that have samples and no row, with their places.
    sampled_only: Vec<ThreadId>,
    sampled_only_places: HashMap<ThreadId, Place>,
}

impl ThreadOwners {
    /// The threads of a snapshot.
    pub fn new(snapshot: &Snapshot) -> Self {
        let mut places: HashMap<ThreadId, Vec<_>> = HashMap::new();
        for (place, thread) in snapshot.threads.iter().enumerate() {
            places.entry(thread.tid).or_default().push((thread.registered, place));
        }
        places.values_mut().for_each(|places| places.sort_unstable());
        Self { places, rows: snapshot.threads.len(), ..Self::default() }
    }

    /// The thread whose table a marker belongs to. A thread number that is unknown leaves it with
    /// the recorder.
    pub fn of_marker(&self, recorder: Place, marker: &MarkerEntry<'_>) -> Place {
        let known = marker.foreign.and_then(|tid| self.with_number(tid, marker.timing.last()));
        known.unwrap_or(recorder)
    }

    /// The thread that a sample is of; `None` if it has no row and [`ThreadOwners::note_sample`]
    /// has not added it.
    pub fn of_sample(&self, recorder: Place, sample: &SampleEntry<'_>) -> Option<Place> {
        let Some(tid) = sample.foreign else { return Some(recorder) };
        self.with_number(tid, sample.at).or_else(|| self.sampled_only_places.get(&tid).copied())
    }

    /// The thread that a sample is of. A thread without a row gets a place, if `has_room` allows
    /// one more; `None` if it does not.
    pub fn note_sample(
        &mut self,
        recorder: Place,
        sample: &SampleEntry<'_>,
        has_room: impl FnOnce() -> bool,
    ) -> Option<Place> {
        let owner = self.of_sample(recorder, sample);
        let Some(tid) = sample.foreign.filter(|_| owner.is_none()) else { return owner };
        if self.sampled_only.len() >= MAX_SAMPLED_ONLY || !has_room() {
            return None;
        }
        let place = self.rows.saturating_add(self.sampled_only.len());
        self.sampled_only.push(tid);
        self.sampled_only_places.insert(tid, place);
        Some(place)
    }

    /// The place of a thread among those without a row.
    pub fn sampled_only_index(&self, place: Place) -> Option<usize> {
        place.checked_sub(self.rows)
    }

    /// Threads of which there are samples and nothing else, by their places.
    pub fn sampled_only(&self) -> impl Iterator<Item = (Place, ThreadId)> {
        (self.rows..).zip(self.sampled_only.iter().copied())
    }

    /// Of threads that had one number in turn, the last that had it by then.
    fn with_number(&self, tid: ThreadId, at: Timestamp) -> Option<Place> {
        let places = self.places.get(&tid)?;
        // A search, because a pool may give one number to all of its threads.
        let by_then = places.partition_point(|(since, _)| *since <= at).saturating_sub(1);
        places.get(by_then).map(|(_, place)| *place)
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
        let lives = vec![(Timestamp::from_raw(10), 4), (Timestamp::from_raw(20), 7)];
        let places = HashMap::from([(ThreadId::new(99), lives)]);
        let owners = ThreadOwners { places, ..ThreadOwners::default() };
        let owner = |at| owners.of_marker(0, &marker(Some(99), at));
        assert_eq!([5, 10, 19, 20, 1_000].map(owner), [4, 4, 4, 7, 7]);
        assert_eq!(owners.of_marker(3, &marker(Some(1), 0)), 3);
    }

    #[test]
    fn without_a_known_thread_number_the_recorder_keeps_the_marker() {
        let owners = ThreadOwners::default();
        assert_eq!(owners.of_marker(3, &marker(None, 1)), 3);
        assert_eq!(owners.of_marker(3, &marker(Some(99), 1)), 3);
    }
}
