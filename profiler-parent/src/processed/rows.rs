//! Rows of numbers of many lists, filled side by side: samples of threads, values of counters.
//!
//! The entries of many threads lie mixed in a pool, and a profile wants them thread by thread. Each
//! list keeps one block of rows in memory; full blocks go to one unlinked file. Invariant: rows come
//! back in the order of their first number, which is a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::spill::temporary;

const BLOCK_BYTES: usize = 4096;

/// Where full blocks are.
#[derive(Debug, Default)]
pub(super) struct RowStore {
    file: Option<File>,
    end: u64,
}

impl RowStore {
    fn append(&mut self, block: &[u8]) -> io::Result<u64> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(temporary()?),
        };
        let at = self.end;
        file.write_all_at(block, at)?;
        self.end = at.saturating_add(u64::try_from(block.len()).unwrap_or(0));
        Ok(at)
    }

    fn read(&self, at: u64, block: &mut [u8]) -> io::Result<()> {
        self.file.as_ref().ok_or(io::ErrorKind::NotFound)?.read_exact_at(block, at)
    }
}

/// One list of rows of `N` numbers.
#[derive(Debug, Default)]
pub(super) struct Rows<const N: usize> {
    tail: Vec<u8>,
    blocks: Vec<u64>,
    count: u64,
    last: u64,
    is_mixed: bool,
}

impl<const N: usize> Rows<N> {
    const ROW: usize = N * 8;
    const BLOCK: usize = BLOCK_BYTES / Self::ROW * Self::ROW;

    /// How many rows there are.
    pub(super) const fn len(&self) -> u64 {
        self.count
    }

    /// Whether there are none.
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a row.
    pub(super) fn push(&mut self, store: &mut RowStore, row: [u64; N]) -> io::Result<()> {
        let time = row.first().copied().unwrap_or(0);
        self.is_mixed |= time < self.last;
        self.last = self.last.max(time);
        self.count += 1;
        row.iter().for_each(|number| self.tail.extend_from_slice(&number.to_ne_bytes()));
        if self.tail.len() >= Self::BLOCK {
            self.blocks.push(store.append(&self.tail)?);
            self.tail.clear();
        }
        Ok(())
    }

    /// Shows all rows, in order.
    pub(super) fn for_each(&self, store: &RowStore, mut show: impl FnMut([u64; N])) -> io::Result<()> {
        if !self.is_mixed {
            return self.as_they_came(store, show);
        }
        // Several recorded for one thread: no order but by sorting.
        let mut all = Vec::new();
        self.as_they_came(store, |row| all.push(row))?;
        all.sort_by_key(|row| row.first().copied());
        all.into_iter().for_each(&mut show);
        Ok(())
    }

    fn as_they_came(&self, store: &RowStore, mut show: impl FnMut([u64; N])) -> io::Result<()> {
        let mut block = vec![0; Self::BLOCK];
        let mut show_all = |bytes: &[u8]| bytes.chunks_exact(Self::ROW).for_each(|bytes| show(row(bytes)));
        for at in &self.blocks {
            store.read(*at, &mut block)?;
            show_all(&block);
        }
        show_all(&self.tail);
        Ok(())
    }
}

fn row<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = bytes.as_chunks::<8>().0.iter();
    std::array::from_fn(|_| words.next().map_or(0, |word| u64::from_ne_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_grow_side_by_side_come_back_whole_and_in_order() {
        let mut store = RowStore::default();
        let mut lists: [Rows<3>; 3] = Default::default();
        for number in 0..3000_u64 {
            let list = (number % 3) as usize;
            lists[list].push(&mut store, [number, number * 2, 7]).unwrap();
        }
        for (number, list) in lists.iter().enumerate() {
            let mut seen = Vec::new();
            list.for_each(&store, |row| seen.push(row)).unwrap();
            assert_eq!(list.len(), 1000);
            assert!(!list.blocks.is_empty());
            let expected = (0..1000_u64).map(|n| n * 3 + number as u64).map(|n| [n, n * 2, 7]);
            assert!(seen.into_iter().eq(expected));
        }
    }

    #[test]
    fn times_never_go_backwards_whoever_recorded() {
        let (mut store, mut rows) = (RowStore::default(), Rows::<1>::default());
        for time in (0..1000).step_by(2).chain((1..1000).step_by(2)) {
            rows.push(&mut store, [time]).unwrap();
        }
        let mut seen = Vec::new();
        rows.for_each(&store, |[time]| seen.push(time)).unwrap();
        assert!(seen.into_iter().eq(0..1000));
    }
}
