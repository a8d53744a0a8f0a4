//! The processor time of the processes that are not recorded, as far as it was seen.
//!
//! The watcher notes the time of each process at each look, so the time since the last look at a
//! process is missing. Invariant: what is kept is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::proc::Stat;

/// The most processes whose time is kept.
const MAX: usize = 4096;

/// The times of processes, by their numbers and the times when they began.
#[derive(Debug, Default)]
pub(super) struct UsedTimes {
    used: BTreeMap<(u32, u64), u64>,
    /// The numbers of processes that are not recorded.
    listed: BTreeSet<u32>,
}

impl UsedTimes {
    /// Forgets processes if there are too many, but neither those that run nor those that are not
    /// recorded.
    pub(super) fn limit(&mut self, runs: impl Fn(u32) -> bool) {
        if self.used.len() > MAX {
            let listed = &self.listed;
            self.used
                .retain(|(pid, _), _| listed.contains(pid) || runs(*pid));
        }
    }

    /// Notes what a look has found.
    pub(super) fn note(&mut self, pid: u32, stat: &Stat) {
        self.used.insert((pid, stat.began), stat.used);
    }

    /// Notes that a process is not recorded.
    pub(super) fn list(&mut self, pid: u32) {
        self.listed.insert(pid);
    }

    /// The time of the processes that are not recorded. Of several processes with one number, only
    /// the latest one counts. A process that was recorded later, after it executed another program,
    /// does not count: its clock does not tell the two programs apart.
    pub(super) fn of_listed(&self, was_recorded: impl Fn(u32) -> bool) -> Duration {
        let mut latest: BTreeMap<u32, u64> = BTreeMap::new();
        for ((pid, _), used) in &self.used {
            if self.listed.contains(pid) && !was_recorded(*pid) {
                latest.insert(*pid, *used);
            }
        }
        let ticks: u64 = latest.into_values().sum();
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Duration::from_millis(ticks.saturating_mul(1000) / per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_processes_that_are_not_recorded_is_added_up() {
        let mut times = UsedTimes::default();
        let stat = |began: u64, used: u64| Stat::test(began, used);
        let second = rustix::param::clock_ticks_per_second();
        times.note(1, &stat(5, second));
        times.note(2, &stat(5, second));
        times.note(1, &stat(5, 2 * second));
        times.note(3, &stat(6, second));
        let never = |_| false;
        assert_eq!(times.of_listed(never), Duration::ZERO);
        times.list(1);
        times.list(3);
        assert_eq!(times.of_listed(never), Duration::from_secs(3));
        assert_eq!(times.of_listed(|pid| pid == 1), Duration::from_secs(1));
    }
}
