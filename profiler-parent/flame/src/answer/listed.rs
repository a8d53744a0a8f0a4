//! The processes and threads that an answer lists, with their time.
//!
//! Used while an answer is made. Invariant: the lists are bounded and contain the rows with the
//! most time; among rows with the same time, the first.

use serde::Serialize;

/// Limits on the listed processes and threads.
pub(super) const MAX_PROCESSES: usize = 200;
pub(super) const MAX_THREADS: usize = 200;

/// A process and its time in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ProcessTime {
    /// Refers to it in the nodes of this answer.
    pub(super) number: u32,
    pub(super) key: String,
    pub(super) pid: u32,
    pub(super) name: String,
    /// Its place among all processes, which gives it its colour.
    pub(super) order: u64,
    pub(super) on_cpu_ns: u64,
    pub(super) off_cpu_ns: u64,
}

impl ProcessTime {
    /// Time of both kinds.
    pub(super) const fn total_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_add(self.off_cpu_ns)
    }
}

/// A thread of the selected process and its time in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ThreadTime {
    pub(super) tid: u64,
    pub(super) name: String,
    pub(super) on_cpu_ns: u64,
    pub(super) off_cpu_ns: u64,
}

impl ThreadTime {
    /// Time of both kinds.
    pub(super) const fn total_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_add(self.off_cpu_ns)
    }
}

/// The rows with the largest values, in their previous order. Of rows with the same value, the
/// first are kept.
pub(super) fn largest<T>(mut rows: Vec<T>, most: usize, value: impl Fn(&T) -> u64) -> Vec<T> {
    if rows.len() <= most {
        return rows;
    }
    let mut values: Vec<u64> = rows.iter().map(&value).collect();
    let last = most.saturating_sub(1);
    let (before, least, _) = values.select_nth_unstable_by(last, |one, other| other.cmp(one));
    let least = *least;
    let larger = before.iter().filter(|value| **value > least).count();
    let mut room = most.saturating_sub(larger);
    rows.retain(|row| {
        let value = value(row);
        let has_room = value == least && room > 0;
        room -= usize::from(has_room);
        value > least || has_room
    });
    rows
}
