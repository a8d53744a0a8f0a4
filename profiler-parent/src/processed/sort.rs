//! Sorts more rows than fit into memory: sorted parts are written to a file, then merged.
//!
//! Used by [`super::rows`] for lists that several threads have filled. Invariants: rows with equal
//! times keep their order; memory is limited to [`AT_ONCE`] rows and a small buffer for each part.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::rows::row;
use profiler_files::spill::temporary;

/// Number of rows that are sorted in memory at once.
pub(super) const AT_ONCE: usize = 91_000;
/// Number of rows that are read from a part at once.
const READ_AT_ONCE: usize = 64;

/// Collects rows and returns them sorted.
#[derive(Debug)]
pub(super) struct Sorter<const N: usize> {
    rows: Vec<[u64; N]>,
    at_once: usize,
    file: Option<File>,
    /// Number of parts in the file, each of `at_once` rows.
    parts: u64,
}

impl<const N: usize> Default for Sorter<N> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            at_once: AT_ONCE,
            file: None,
            parts: 0,
        }
    }
}

impl<const N: usize> Sorter<N> {
    const ROW: u64 = N as u64 * 8;

    /// Adds a row.
    pub(super) fn add(&mut self, row: [u64; N]) -> io::Result<()> {
        if self.rows.len() >= self.at_once {
            self.write_part()?;
        }
        self.rows.push(row);
        Ok(())
    }

    fn write_part(&mut self) -> io::Result<()> {
        self.rows.sort_by_key(time);
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(temporary()?),
        };
        let mut at = self.parts * self.at_once as u64 * Self::ROW;
        for rows in self.rows.chunks(READ_AT_ONCE) {
            let bytes: Vec<u8> = rows
                .iter()
                .flatten()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
            file.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        self.rows.clear();
        self.parts += 1;
        Ok(())
    }

    /// Calls `show` with every row, in the order of their first number.
    pub(super) fn finish(mut self, mut show: impl FnMut([u64; N])) -> io::Result<()> {
        self.rows.sort_by_key(time);
        let mut parts: Vec<Part<N>> = (0..self.parts).map(|part| self.part(part)).collect();
        parts.push(Part {
            rows: std::mem::take(&mut self.rows).into_iter(),
            at: 0,
            left: 0,
        });
        let mut heads = BinaryHeap::new();
        for (number, part) in parts.iter_mut().enumerate() {
            heads.extend(
                part.next(self.file.as_ref())?
                    .map(|row| Reverse((time(&row), number, row))),
            );
        }
        while let Some(Reverse((_, number, row))) = heads.pop() {
            show(row);
            let next = parts
                .get_mut(number)
                .map_or(Ok(None), |part| part.next(self.file.as_ref()))?;
            heads.extend(next.map(|row| Reverse((time(&row), number, row))));
        }
        Ok(())
    }

    fn part(&self, number: u64) -> Part<N> {
        let rows = self.at_once as u64;
        Part {
            rows: Vec::new().into_iter(),
            at: number * rows * Self::ROW,
            left: rows,
        }
    }
}

/// A sorted part: some rows in memory, the others in the file.
#[derive(Debug)]
struct Part<const N: usize> {
    rows: std::vec::IntoIter<[u64; N]>,
    at: u64,
    left: u64,
}

impl<const N: usize> Part<N> {
    fn next(&mut self, file: Option<&File>) -> io::Result<Option<[u64; N]>> {
        if let Some(row) = self.rows.next() {
            return Ok(Some(row));
        }
        let Some(file) = file.filter(|_| self.left > 0) else {
            return Ok(None);
        };
        let count = usize::try_from(self.left)
            .unwrap_or(READ_AT_ONCE)
            .min(READ_AT_ONCE);
        let mut bytes = vec![0; count * N * 8];
        file.read_exact_at(&mut bytes, self.at)?;
        self.at += bytes.len() as u64;
        self.left -= count as u64;
        self.rows = bytes
            .chunks_exact(N * 8)
            .map(row)
            .collect::<Vec<_>>()
            .into_iter();
        Ok(self.rows.next())
    }
}

fn time<const N: usize>(row: &[u64; N]) -> u64 {
    row.first().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_merged_in_order_and_rows_with_equal_times_keep_their_order() {
        for count in [0_u64, 5, 100, 101, 1000, 1234] {
            let mut sorter = Sorter::<2> {
                at_once: 100,
                ..Sorter::default()
            };
            let mut expected: Vec<[u64; 2]> = (0..count)
                .map(|number| [number * 7919 % 97, number])
                .collect();
            for row in &expected {
                sorter.add(*row).unwrap();
                assert!(sorter.rows.len() <= 100);
            }
            expected.sort_by_key(|row| row[0]);
            let mut seen = Vec::new();
            sorter.finish(|row| seen.push(row)).unwrap();
            assert_eq!(seen, expected, "{count}");
        }
    }
}
