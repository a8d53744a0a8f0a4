//! Which processes stand still, for those who look again and again.
//!
//! The system must be asked for each, which costs more than reading its groups; so of many processes only those are asked about
//! each time that were not for longest. Up to 50 processes what is known is of now, of 200 it is of the last four looks.

use std::collections::HashMap;

use profiler_core::ids::PoolId;

/// Processes that are asked about in one look.
const ASKED_AT_ONCE: usize = 50;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Standings {
    /// By process, in which look it was asked about, and whether it stood still.
    known: HashMap<PoolId, (u64, bool)>,
    looks: u64,
}

impl Standings {
    /// Asks about some of these, which are all that run.
    pub(super) fn look(&mut self, running: &[PoolId], is_stopped: impl Fn(PoolId) -> bool) {
        self.looks += 1;
        let mut known = std::mem::take(&mut self.known);
        self.known = running.iter().filter_map(|key| Some((*key, known.remove(key)?))).collect();
        let mut next: Vec<PoolId> = running.to_vec();
        if next.len() > ASKED_AT_ONCE {
            next.sort_by_cached_key(|key| self.known.get(key).map(|(look, _)| *look));
            next.truncate(ASKED_AT_ONCE);
        }
        for key in next {
            self.known.insert(key, (self.looks, is_stopped(key)));
        }
    }

    /// Whether it stands still, as far as is known.
    pub(super) fn is_stopped(&self, key: PoolId) -> bool {
        self.known.get(&key).is_some_and(|(_, is_stopped)| *is_stopped)
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
    fn p12_of_few_processes_all_are_asked_about_each_time() {
        let mut standings = Standings::default();
        let all = keys(50);
        standings.look(&all, |_| true);
        assert!(all.iter().all(|key| standings.is_stopped(*key)));
        standings.look(&all, |key| key == PoolId::new(7));
        let stopped: Vec<_> = all.iter().filter(|key| standings.is_stopped(**key)).collect();
        assert_eq!(stopped, [&PoolId::new(7)]);
    }

    #[test]
    fn p12_of_many_processes_each_is_asked_about_in_turn() {
        let (mut standings, all, asked) = (Standings::default(), keys(200), Cell::new(0));
        for look in 1..=4 {
            standings.look(&all, |_| {
                asked.set(asked.get() + 1);
                true
            });
            assert_eq!(asked.get(), 50 * look);
        }
        assert!(all.iter().all(|key| standings.is_stopped(*key)));
        standings.look(&keys(1), |_| false);
        assert!(!standings.is_stopped(PoolId::new(0)), "asked again");
        assert!(!standings.is_stopped(PoolId::new(1)), "nothing is kept of one that has gone");
    }
}
