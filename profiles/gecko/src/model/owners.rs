//! Finds the thread that an entry belongs to: the recording thread, or the thread that the entry
//! names.
//!
//! The sampler records samples of other threads, and a thread can record markers for another one.
//! Both formats call [`ThreadOwners`] once per entry.

use std::collections::HashMap;

use profiler_core::ids::ThreadId;
use profiler_core::internal::entry::MarkerEntry;
use profiler_core::internal::entry::sample::SampleEntry;
use profiler_core::internal::reader::Snapshot;
use profiler_core::time::Timestamp;

/// Place of a thread in the snapshot's list. Threads that are known from samples only follow.
pub type Place = usize;

/// Maximum number of threads of a process that are known from samples only. Samples of further
/// threads count as evicted.
const MAX_SAMPLED_ONLY: usize = 1_000;

/// The threads of one process by their numbers.
#[derive(Debug, Default)]
pub struct ThreadOwners {
    /// The threads of each number, by the time from which a thread had the number.
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
            places
                .entry(thread.tid)
                .or_default()
                .push((thread.registered, place));
        }
        places
            .values_mut()
            .for_each(|places| places.sort_unstable());
        Self {
            places,
            rows: snapshot.threads.len(),
            ..Self::default()
        }
    }

    /// The thread whose table a marker belongs to. A marker with an unknown thread number belongs
    /// to the recorder.
    pub fn of_marker(&self, recorder: Place, marker: &MarkerEntry<'_>) -> Place {
        let known = marker
            .foreign
            .and_then(|tid| self.with_number(tid, marker.timing.last()));
        known.unwrap_or(recorder)
    }

    /// The thread that was sampled; `None` if it has no row and [`ThreadOwners::note_sample`] has
    /// not added it.
    pub fn of_sample(&self, recorder: Place, sample: &SampleEntry<'_>) -> Option<Place> {
        let Some(tid) = sample.foreign else {
            return Some(recorder);
        };
        self.with_number(tid, sample.at)
            .or_else(|| self.sampled_only_places.get(&tid).copied())
    }

    /// The thread that was sampled. A thread without a row gets a place if `has_room` allows one
    /// more, otherwise `None`.
    pub fn note_sample(
        &mut self,
        recorder: Place,
        sample: &SampleEntry<'_>,
        has_room: impl FnOnce() -> bool,
    ) -> Option<Place> {
        let owner = self.of_sample(recorder, sample);
        let Some(tid) = sample.foreign.filter(|_| owner.is_none()) else {
            return owner;
        };
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

    /// Threads that are known from samples only, with their places.
    pub fn sampled_only(&self) -> impl Iterator<Item = (Place, ThreadId)> {
        (self.rows..).zip(self.sampled_only.iter().copied())
    }

    /// The last thread that had this number at `at` or before; otherwise the first that had it.
    fn with_number(&self, tid: ThreadId, at: Timestamp) -> Option<Place> {
        let places = self.places.get(&tid)?;
        // A binary search, because a pool may claim the same number for all of its threads.
        let by_then = places
            .partition_point(|(since, _)| *since <= at)
            .saturating_sub(1);
        places.get(by_then).map(|(_, place)| *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_core::ids::DefinitionId;
    use profiler_core::internal::entry::Timing;
    use profiler_core::internal::entry::stack::Stack;

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
            trace: None,
        }
    }

    #[test]
    fn a_reused_thread_number_means_the_thread_that_had_it_at_the_time() {
        let lives = vec![(Timestamp::from_raw(10), 4), (Timestamp::from_raw(20), 7)];
        let places = HashMap::from([(ThreadId::new(99), lives)]);
        let owners = ThreadOwners {
            places,
            ..ThreadOwners::default()
        };
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
