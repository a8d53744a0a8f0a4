//! The times without sampling, as one list without overlaps.
//!
//! Built from the pauses of a thread and of its process; queried in the order of the samples, by
//! `sample_time` and by the exports.
//! Invariant: the queries for all samples of a thread together take time proportional to the length
//! of the list, even if the input repeats ranges.

use super::reader::Thread;
use super::survey::Survey;

/// The times without sampling of a thread. See the [module](self).
#[derive(Debug, Default)]
pub struct Pauses {
    /// Start and end in nanoseconds, sorted; ranges do not touch.
    ranges: Vec<(i64, i64)>,
}

/// Answers queries about pauses in the order of time.
#[derive(Debug)]
pub struct PausesInOrder<'p> {
    /// The ranges that may end after the queried time.
    ranges: &'p [(i64, i64)],
}

impl Pauses {
    /// The pauses of a thread and of its process, with times as in the file. Empty if the thread has
    /// no samples.
    pub fn of_thread(thread: &Thread<'_>, survey: &Survey) -> Self {
        if thread.raw.samples.0.iter().all(Vec::is_empty) {
            return Self::default();
        }
        let part = survey.parts.get(thread.part.0);
        let of_process = part.into_iter().flat_map(|part| &part.paused);
        let all = thread.raw.paused.iter().chain(of_process);
        Self::new(all.filter_map(|range| range.ns()).collect())
    }

    /// Merges ranges of nanoseconds, in any order.
    pub fn new(mut all: Vec<(i64, i64)>) -> Self {
        all.sort_unstable();
        let mut ranges: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (start, end) in all.into_iter().filter(|(start, end)| start < end) {
            match ranges.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => ranges.push((start, end)),
            }
        }
        Self { ranges }
    }

    /// Begins queries in the order of time.
    pub fn in_order(&self) -> PausesInOrder<'_> {
        PausesInOrder {
            ranges: &self.ranges,
        }
    }
}

impl PausesInOrder<'_> {
    /// The nanoseconds of the pauses between two times. Queries must be sorted and must not overlap.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        let over = self.ranges.iter().take_while(|(_, end)| *end <= from);
        self.ranges = self.ranges.get(over.count()..).unwrap_or_default();
        let reached = self.ranges.iter().take_while(|(start, _)| *start < to);
        let part = |(start, end): &(i64, i64)| (*end).min(to).saturating_sub((*start).max(from));
        reached.map(part).fold(0, i64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_and_overlapping_pauses_are_merged() {
        let pauses = Pauses::new(vec![
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
        let mut in_order = pauses.in_order();
        let times = [(-5, 1), (1, 4), (4, 22), (22, 24), (24, 24), (24, 50)];
        assert_eq!(
            times.map(|(from, to)| in_order.between(from, to)),
            [5, 3, 6 + 2, 2, 0, 6 + 10]
        );
    }
}
