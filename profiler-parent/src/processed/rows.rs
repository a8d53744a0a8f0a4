//! Many lists of rows of numbers, filled at the same time: samples of threads, values of counters.
//!
//! A list is a [`Log`] of rows of one length. Invariant: rows are read in the order of their first
//! number, which is a time; no list has to fit into memory for that.

use std::io::{self, Write};

use profiler_json::JsonWriter;

use super::sort::Sorter;
use super::store::{Log, RowStore};

/// One list of rows of `N` numbers.
#[derive(Debug, Default)]
pub(super) struct Rows<const N: usize> {
    log: Log,
    count: u64,
    last: u64,
    /// Rows were not added in the order of their times.
    is_mixed: bool,
}

impl<const N: usize> Rows<N> {
    /// Number of rows.
    pub(super) const fn len(&self) -> u64 {
        self.count
    }

    /// Whether the list has no rows.
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The latest time of a row; 0 if there is none.
    pub(super) const fn last_time(&self) -> u64 {
        self.last
    }

    /// Adds a row.
    pub(super) fn push(&mut self, store: &mut RowStore, row: [u64; N]) -> io::Result<()> {
        let time = row.first().copied().unwrap_or(0);
        self.is_mixed |= time < self.last;
        self.last = self.last.max(time);
        self.count += 1;
        let bytes = row.map(u64::to_ne_bytes);
        self.log.push(store, &[bytes.as_flattened()])
    }

    /// Calls `show` with every row, in the order of their times.
    pub(super) fn for_each(
        &self,
        store: &RowStore,
        mut show: impl FnMut([u64; N]),
    ) -> io::Result<()> {
        if !self.is_mixed {
            return self.for_each_unsorted(store, |row| {
                show(row);
                Ok(())
            });
        }
        // Several threads recorded for one thread, so the rows must be sorted.
        let mut sorter = Sorter::default();
        self.for_each_unsorted(store, |row| sorter.add(row))?;
        sorter.finish(show)
    }

    /// Writes a column under its name. `item` writes the value of a row.
    pub(super) fn write_column<W: Write>(
        &self,
        store: &RowStore,
        name: &str,
        out: &mut JsonWriter<W>,
        mut item: impl FnMut([u64; N], &mut JsonWriter<W>),
    ) -> io::Result<()> {
        out.key(name);
        out.begin_array();
        self.for_each(store, |row| item(row, out))?;
        out.end_array();
        Ok(())
    }

    fn for_each_unsorted(
        &self,
        store: &RowStore,
        mut show: impl FnMut([u64; N]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.log.for_each(store, |bytes| {
            bytes
                .chunks_exact(N * 8)
                .try_for_each(|bytes| show(row(bytes)))
        })
    }
}

/// Decodes a row of `N` words.
pub(super) fn row<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = bytes.as_chunks::<8>().0.iter();
    std::array::from_fn(|_| words.next().map_or(0, |word| u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_filled_at_the_same_time_are_read_completely_and_in_order() {
        let mut store = RowStore::default();
        let mut lists: [Rows<3>; 3] = Default::default();
        for number in 0..3000_u64 {
            let list = (number % 3) as usize;
            lists[list]
                .push(&mut store, [number, number * 2, 7])
                .unwrap();
        }
        for (number, list) in lists.iter().enumerate() {
            let mut seen = Vec::new();
            list.for_each(&store, |row| seen.push(row)).unwrap();
            assert_eq!(list.len(), 1000);
            let expected = (0..1000_u64)
                .map(|n| n * 3 + number as u64)
                .map(|n| [n, n * 2, 7]);
            assert!(seen.into_iter().eq(expected));
        }
    }

    #[test]
    fn rows_are_read_in_the_order_of_their_times() {
        let mut store = RowStore::default();
        let mut rows = Rows::<1>::default();
        for time in (0..1000).step_by(2).chain((1..1000).step_by(2)) {
            rows.push(&mut store, [time]).unwrap();
        }
        let mut seen = Vec::new();
        rows.for_each(&store, |[time]| seen.push(time)).unwrap();
        assert!(seen.into_iter().eq(0..1000));
    }
}
