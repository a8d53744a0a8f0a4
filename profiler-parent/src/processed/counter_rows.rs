//! The values of a process's counters over time, collected in the first pass.
//!
//! Filled by [`super::first_pass`], read where counters are written. Invariants: only the counters
//! of the snapshot have rows, although the entries in the pool may name other cells; if only some
//! values are kept, the last and the highest of every second are among them.

use std::collections::BTreeMap;
use std::io;

use profiler_core::ids::CounterIndex;
use profiler_core::internal::entry::periodic::CountersEntry;
use profiler_core::internal::reader::Snapshot;

use super::rows::Rows;
use super::store::RowStore;
use super::tick_detail::{CounterRow, PerSecondFilter, WallSeconds};

/// The values of all counters.
#[derive(Debug)]
pub(super) struct CounterRows {
    by_cell: BTreeMap<CounterIndex, CounterValues>,
    /// The seconds of which only some values are kept; `None` if all values are.
    seconds: Option<WallSeconds>,
}

/// The values of a counter.
#[derive(Debug, Default)]
struct CounterValues {
    rows: Rows<3>,
    filter: PerSecondFilter,
}

impl CounterRows {
    /// No values yet of the counters of a snapshot.
    pub(super) fn new(snapshot: &Snapshot, seconds: Option<WallSeconds>) -> Self {
        let cells = snapshot
            .counters
            .iter()
            .map(|counter| counter.definition.cell);
        Self {
            by_cell: cells.map(|cell| (cell, CounterValues::default())).collect(),
            seconds,
        }
    }

    /// Whether the snapshot has no counter.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_cell.is_empty()
    }

    /// Whether the snapshot has this counter.
    pub(super) fn has(&self, cell: CounterIndex) -> bool {
        self.by_cell.contains_key(&cell)
    }

    /// The rows of a counter, if it has any.
    pub(super) fn of(&self, cell: CounterIndex) -> Option<&Rows<3>> {
        let rows = self.by_cell.get(&cell).map(|values| &values.rows);
        rows.filter(|rows| !rows.is_empty())
    }

    /// Adds the values of an entry.
    pub(super) fn add(
        &mut self,
        counters: &CountersEntry<'_>,
        store: &mut RowStore,
    ) -> io::Result<()> {
        for value in counters.values() {
            let row = [counters.at.raw(), value.value.cast_unsigned(), value.number];
            let Some(CounterValues { rows, filter }) = self.by_cell.get_mut(&value.cell) else {
                continue;
            };
            match self.seconds {
                None => rows.push(store, row)?,
                Some(seconds) => push_all(rows, store, filter.add(row, seconds))?,
            }
        }
        Ok(())
    }

    /// Adds the values that the filters still hold. Call this at the end of the first pass.
    pub(super) fn finish(&mut self, store: &mut RowStore) -> io::Result<()> {
        for CounterValues { rows, filter } in self.by_cell.values_mut() {
            push_all(rows, store, filter.end_second())?;
        }
        Ok(())
    }
}

fn push_all(
    rows: &mut Rows<3>,
    store: &mut RowStore,
    kept: impl IntoIterator<Item = CounterRow>,
) -> io::Result<()> {
    kept.into_iter().try_for_each(|row| rows.push(store, row))
}
