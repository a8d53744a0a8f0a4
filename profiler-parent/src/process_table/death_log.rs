//! The latest deaths of processes, numbered. Captures on a sign read the new ones.
//!
//! Part of the [`ProcessTable`]. Invariants: the number of kept deaths is bounded; each death is
//! noted once, when the data of the process can be captured.

use std::collections::VecDeque;
use std::sync::PoisonError;

use profiler_core::ids::ProcessId;

use super::ProcessTable;
use crate::gather::verdict::Why;

/// The maximum number of deaths that are kept.
const KEPT: usize = 256;

/// The end of a process of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessDeath {
    /// The process.
    pub process: ProcessId,
    /// Its name in the profile.
    pub name: String,
    /// How it has ended.
    pub why: Why,
}

/// The deaths of a session.
#[derive(Debug, Default)]
pub(super) struct DeathLog {
    count: u64,
    /// The latest ones, the first of them first.
    latest: VecDeque<ProcessDeath>,
}

impl DeathLog {
    fn add(&mut self, death: ProcessDeath) {
        self.count += 1;
        self.latest.push_back(death);
        if self.latest.len() > KEPT {
            self.latest.pop_front();
        }
    }

    /// The kept deaths from this number on.
    fn from(&self, number: u64) -> Vec<ProcessDeath> {
        let new = self.count.saturating_sub(number);
        let new = usize::try_from(new).unwrap_or(usize::MAX);
        let known = self.latest.len().saturating_sub(new);
        self.latest.iter().skip(known).cloned().collect()
    }
}

impl ProcessTable {
    pub(super) fn note_death(&self, death: ProcessDeath) {
        let deaths = self.death_log.lock();
        deaths.unwrap_or_else(PoisonError::into_inner).add(death);
    }

    /// The kept deaths from this number on, the first ones first, and the number of the next one.
    pub(crate) fn deaths_from(&self, number: u64) -> (Vec<ProcessDeath>, u64) {
        let deaths = self.death_log.lock();
        let deaths = deaths.unwrap_or_else(PoisonError::into_inner);
        (deaths.from(number), deaths.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_death_is_passed_once_and_few_are_kept() {
        let table = ProcessTable::default();
        let note = |number: u32| {
            let death = ProcessDeath {
                process: ProcessId::new(number),
                name: "p".to_owned(),
                why: Why::Gone,
            };
            table.note_death(death);
        };
        let pids = |deaths: Vec<ProcessDeath>| -> Vec<u32> {
            deaths.iter().map(|death| death.process.get()).collect()
        };
        (1..=3).for_each(note);
        let (first, next) = table.deaths_from(0);
        assert_eq!((pids(first), next), (vec![1, 2, 3], 3));
        assert_eq!(table.deaths_from(next), (Vec::new(), 3));
        note(4);
        let (later, next) = table.deaths_from(next);
        assert_eq!((pids(later), next), (vec![4], 4));
        (5..=1_000).for_each(note);
        let (later, next) = table.deaths_from(next);
        let last = pids(later);
        assert_eq!((last.len(), last.last(), next), (KEPT, Some(&1_000), 1_000));
    }
}
