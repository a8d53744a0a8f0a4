//! A cache of which processes are stopped, for periodic callers.
//!
//! Used by [`super::snapshot_reader`]. Asking the system about a process costs more than reading
//! its groups. With many processes, an update therefore asks only about those with the oldest
//! answers. With up to 50 processes every answer is current; with 200 it is from one of the last
//! four updates.

use std::collections::HashMap;

use profiler_core::ids::PoolId;

/// The number of processes that one update asks about.
const ASKED_AT_ONCE: usize = 50;

/// A cache of which processes are stopped. See the head of this file.
#[derive(Debug, Default)]
pub(super) struct StoppedCache {
    /// For each process, the number of the update that last asked about it, and the answer.
    known: HashMap<PoolId, (u64, bool)>,
    updates: u64,
}

impl StoppedCache {
    /// Asks about some of `running`, which lists all running processes.
    pub(super) fn update(&mut self, running: &[PoolId], is_stopped: impl Fn(PoolId) -> bool) {
        self.updates += 1;
        let mut known = std::mem::take(&mut self.known);
        self.known = running
            .iter()
            .filter_map(|key| Some((*key, known.remove(key)?)))
            .collect();
        let mut next: Vec<PoolId> = running.to_vec();
        if next.len() > ASKED_AT_ONCE {
            next.sort_by_cached_key(|key| self.known.get(key).map(|(update, _)| *update));
            next.truncate(ASKED_AT_ONCE);
        }
        for key in next {
            self.known.insert(key, (self.updates, is_stopped(key)));
        }
    }

    /// Whether the process was stopped at its latest check.
    pub(super) fn is_stopped(&self, key: PoolId) -> bool {
        self.known
            .get(&key)
            .is_some_and(|(_, is_stopped)| *is_stopped)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn keys(count: u128) -> Vec<PoolId> {
        (0..count).map(PoolId::new).collect()
    }

    #[test]
    fn p12_an_update_asks_about_all_of_few_processes() {
        let mut cache = StoppedCache::default();
        let all = keys(50);
        cache.update(&all, |_| true);
        assert!(all.iter().all(|key| cache.is_stopped(*key)));
        cache.update(&all, |key| key == PoolId::new(7));
        let stopped: Vec<_> = all.iter().filter(|key| cache.is_stopped(**key)).collect();
        assert_eq!(stopped, [&PoolId::new(7)]);
    }

    #[test]
    fn p12_updates_ask_about_many_processes_in_turn() {
        let mut cache = StoppedCache::default();
        let all = keys(200);
        let asked = Cell::new(0);
        for update in 1..=4 {
            cache.update(&all, |_| {
                asked.set(asked.get() + 1);
                true
            });
            assert_eq!(asked.get(), 50 * update);
        }
        assert!(all.iter().all(|key| cache.is_stopped(*key)));
        cache.update(&keys(1), |_| false);
        assert!(!cache.is_stopped(PoolId::new(0)), "asked again");
        assert!(
            !cache.is_stopped(PoolId::new(1)),
            "a process that is no longer listed is forgotten"
        );
    }
}
