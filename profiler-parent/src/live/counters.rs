//! Counters summed over all processes, with their recent values, for the page's small graphs.
//!
//! Updated by [`super::snapshot_cache`]. Invariant: the number of counters, and of values of each,
//! is bounded.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::processes::{LiveProcessRow, ProcessHistory};

/// Values kept per counter: two minutes while the page is open.
const VALUES: usize = 120;
/// Limit on the counters shown.
const COUNTERS: usize = 24;

/// How a value is displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Unit {
    Bytes,
    Percent,
    PerSecond,
    Number,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct CounterRow {
    name: String,
    unit: Unit,
    value: f64,
    /// Oldest first; the last one equals `value`.
    values: VecDeque<f64>,
}

/// The recent values of all counters.
#[derive(Debug, Default)]
pub(super) struct CounterHistory(BTreeMap<String, VecDeque<f64>>);

impl CounterHistory {
    /// Adds the current values: first those that the profiler measures, then the counters of the
    /// programs.
    #[allow(clippy::cast_precision_loss)] // shown with few digits
    pub(super) fn update(
        &mut self,
        known: &ProcessHistory,
        processes: &[LiveProcessRow],
    ) -> Vec<CounterRow> {
        let sum = |of: fn(&LiveProcessRow) -> f64| processes.iter().map(of).sum::<f64>();
        let mut now = vec![
            (
                "recording memory".to_owned(),
                Unit::Bytes,
                sum(|row| row.held_bytes as f64),
            ),
            (
                "resident memory".to_owned(),
                Unit::Bytes,
                sum(|row| row.resident_bytes.unwrap_or(0) as f64),
            ),
            (
                "processor".to_owned(),
                Unit::Percent,
                sum(|row| row.cpu_pct.unwrap_or(0.0)),
            ),
            (
                "entries".to_owned(),
                Unit::PerSecond,
                sum(|row| row.rate.unwrap_or(0.0)),
            ),
        ];
        let mut own: BTreeMap<&str, (Unit, f64)> = BTreeMap::new();
        for counter in known.counters() {
            let is_memory = counter.definition.category.eq_ignore_ascii_case("memory");
            let unit = if is_memory { Unit::Bytes } else { Unit::Number };
            own.entry(&counter.definition.name).or_insert((unit, 0.0)).1 += counter.value as f64;
        }
        now.extend(
            own.into_iter()
                .map(|(name, (unit, value))| (name.to_owned(), unit, value)),
        );
        now.truncate(COUNTERS);
        self.0
            .retain(|name, _| now.iter().any(|(known, ..)| known == name));
        now.into_iter()
            .map(|(name, unit, value)| self.row(name, unit, value))
            .collect()
    }

    fn row(&mut self, name: String, unit: Unit, value: f64) -> CounterRow {
        let values = self.0.entry(name.clone()).or_default();
        values.push_back(value);
        while values.len() > VALUES {
            values.pop_front();
        }
        CounterRow {
            name,
            unit,
            value,
            values: values.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_remembered_and_bounded() {
        let mut history = CounterHistory::default();
        let mut rows = Vec::new();
        (0..200).for_each(|_| rows = history.update(&ProcessHistory::default(), &[]));
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| row.values.len() == VALUES));
    }
}
