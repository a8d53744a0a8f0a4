//! The counters of an observed process that the profiler itself measures: processor time and
//! resident memory, with the names that a recorder in the process gives them.
//!
//! Used by `observed_waits` after each look at the process. The counters are made at the first
//! look, so a process that ends before has none, and needs no memory for them. A counter keeps its
//! last value when the process ends.

use super::counters::{CounterChanges, CounterTexts, PROCESS_CPU_TEXTS, RESIDENT_TEXTS};
use super::observed::ObservedProcess;
use crate::ids::CounterIndex;
use crate::params::Features;
use crate::time::Timestamp;

/// A counter, once it is made.
#[derive(Clone, Copy, Debug)]
struct Measured {
    texts: CounterTexts,
    is_wanted: bool,
    cell: Option<CounterIndex>,
}

impl Measured {
    const fn new(texts: CounterTexts, is_wanted: bool) -> Self {
        Self {
            texts,
            is_wanted,
            cell: None,
        }
    }

    fn set(&mut self, process: &ObservedProcess, value: Option<u64>) {
        let Some(value) = value.filter(|_| self.is_wanted) else {
            return;
        };
        if self.cell.is_none() {
            self.cell = process.pool().add_counter(self.texts);
        }
        if let Some(cell) = self.cell {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            process.pool().set_counter(cell, value);
        }
    }
}

/// The counters of an observed process.
#[derive(Debug)]
pub(super) struct ObservedCounters {
    cpu: Measured,
    memory: Measured,
    changes: CounterChanges,
    last_at: Timestamp,
}

impl ObservedCounters {
    pub(super) fn new(features: Features) -> Self {
        Self {
            cpu: Measured::new(PROCESS_CPU_TEXTS, features.contains(Features::PROCESS_CPU)),
            memory: Measured::new(RESIDENT_TEXTS, features.contains(Features::MEMORY)),
            changes: CounterChanges::default(),
            last_at: Timestamp::ZERO,
        }
    }

    /// Whether the resident memory is to be measured.
    pub(super) const fn wants_memory(&self) -> bool {
        self.memory.is_wanted
    }

    /// Records the values at `at`, as far as they are known and have changed. The process has not
    /// run between the last call and `quiet_until`.
    pub(super) fn record(
        &mut self,
        process: &mut ObservedProcess,
        (at, quiet_until): (Timestamp, Option<Timestamp>),
        cpu_ns: Option<u64>,
        resident_bytes: Option<u64>,
    ) {
        self.cpu.set(process, cpu_ns);
        self.memory.set(process, resident_bytes);
        self.changes.find(process.pool().manager());
        let before = quiet_until.map_or(self.last_at, |until| until.max(self.last_at));
        if !self.changes.before.is_empty() {
            process.add_counters(before.min(at), &self.changes.before);
        }
        if !self.changes.now.is_empty() {
            process.add_counters(at, &self.changes.now);
        }
        self.last_at = at;
    }
}
