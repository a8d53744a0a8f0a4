//! The times without sampling, as one list without overlaps.
//!
//! Built from the pauses of a thread and of its process; queried in the order of the samples.
//! Invariant: the queries for all samples of a thread together take time proportional to the length
//! of the list, even if the input repeats ranges.

use std::cell::Cell;

/// The times without sampling of a thread. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// Start and end in nanoseconds, sorted; ranges do not touch.
    ranges: Vec<(i64, i64)>,
    /// Index of the first range that may end after the queried time.
    next: Cell<usize>,
}

impl Pauses {
    /// Merges ranges in any order.
    pub(super) fn of(mut all: Vec<(i64, i64)>) -> Self {
        all.sort_unstable();
        let mut ranges: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (start, end) in all.into_iter().filter(|(start, end)| start < end) {
            match ranges.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => ranges.push((start, end)),
            }
        }
        Self {
            ranges,
            next: Cell::new(0),
        }
    }

    /// The nanoseconds of the ranges between two times. Queries must be sorted and must not
    /// overlap.
    pub(super) fn between(&self, from: i64, to: i64) -> i64 {
        let over = self
            .ranges
            .iter()
            .skip(self.next.get())
            .take_while(|(_, end)| *end <= from)
            .count();
        self.next.set(self.next.get() + over);
        let reached = self
            .ranges
            .iter()
            .skip(self.next.get())
            .take_while(|(start, _)| *start < to);
        let part = |(start, end): &(i64, i64)| (*end).min(to).saturating_sub((*start).max(from));
        reached.map(part).fold(0, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_and_overlapping_pauses_are_merged() {
        let pauses = Pauses::of(vec![
            (5, 9),
            (20, 30),
            (1, 6),
            (9, 10),
            (7, 7),
            (25, 28),
            (40, i64::MAX),
            (i64::MIN, 0),
        ]);
        assert_eq!(
            pauses.ranges,
            [(i64::MIN, 0), (1, 10), (20, 30), (40, i64::MAX)]
        );
        let times = [(-5, 1), (1, 4), (4, 22), (22, 24), (24, 24), (24, 50)];
        assert_eq!(
            times.map(|(from, to)| pauses.between(from, to)),
            [5, 3, 6 + 2, 2, 0, 6 + 10]
        );
    }
}
