//! Whose an entry is: the thread that recorded it, or the one that it names.

use std::collections::HashMap;

use profiler_core::ids::ThreadId;
use profiler_core::internal::reader::Snapshot;
use profiler_core::time::Timestamp;

/// Place of a thread in its process's snapshot.
pub(super) type Place = usize;

/// Threads of one process by number, with the time since when they had it.
#[derive(Debug, Default)]
pub(super) struct Owners {
    places: HashMap<ThreadId, Vec<(Timestamp, Place)>>,
}

impl Owners {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let mut places: HashMap<ThreadId, Vec<_>> = HashMap::new();
        for (place, thread) in snapshot.threads.iter().enumerate() {
            places.entry(thread.tid).or_default().push((thread.registered, place));
        }
        places.values_mut().for_each(|places| places.sort_unstable());
        Self { places }
    }

    /// Whether a thread has, or had, this number.
    pub(super) fn knows(&self, tid: ThreadId) -> bool {
        self.places.contains_key(&tid)
    }

    /// The thread that an entry belongs to. A number that nobody has leaves it with the recorder; of
    /// threads that had one number in turn, it is the last that had it by then.
    pub(super) fn owner(&self, recorder: Place, foreign: Option<ThreadId>, at: Timestamp) -> Place {
        let Some(places) = foreign.and_then(|tid| self.places.get(&tid)) else { return recorder };
        // A pool may give one number to all of its threads.
        let by_then = places.partition_point(|(since, _)| *since <= at).saturating_sub(1);
        places.get(by_then).map_or(recorder, |(_, place)| *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_thread_number_means_the_thread_that_had_it_at_the_time() {
        let lives = vec![(Timestamp::from_raw(10), 4), (Timestamp::from_raw(20), 7)];
        let owners = Owners { places: HashMap::from([(ThreadId::new(99), lives)]) };
        let owner = |at| owners.owner(0, Some(ThreadId::new(99)), Timestamp::from_raw(at));
        assert_eq!([5, 10, 19, 20, 1_000].map(owner), [4, 4, 4, 7, 7]);
        assert_eq!(owners.owner(3, None, Timestamp::ZERO), 3);
        assert_eq!(owners.owner(3, Some(ThreadId::new(1)), Timestamp::ZERO), 3);
    }
}
