//! The times of a group's runs, by which its samples are selected.
//!
//! A pool does not record for which group a thread works when it is sampled: entering a group
//! records nothing. It records, for each group, the longest run of each half second of about the
//! last five seconds, without the thread of the run. So the samples of a group are those that its
//! processes took during these runs, in all of their threads. They show what the process did while
//! the group was slow; work of other threads in the same time is among them. The groups of
//! processes and threads need no runs.

use std::collections::HashMap;

use profiler_core::ids::PoolId;
use profiler_core::internal::reader::groups::Peak;

use crate::recent::RecentSample;
use crate::weights::Weight;
use crate::window::length_ns;

/// The runs of a group in all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunRanges {
    /// By process: ranges of session time in order, which do not overlap.
    of_processes: HashMap<PoolId, Vec<(i64, i64)>>,
    count: usize,
}

impl RunRanges {
    /// The longest run of each recorded half second of a group, with its process.
    pub(crate) fn of(runs: &[(PoolId, Peak)]) -> Self {
        let mut ranges = Self::default();
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        for (process, run) in runs {
            let from = signed(run.ended_ns.saturating_sub(run.duration_ns));
            ranges.add(*process, (from, signed(run.ended_ns)));
        }
        ranges.of_processes.values_mut().for_each(merge);
        ranges
    }

    /// One run in one process.
    #[cfg(test)]
    pub(crate) fn of_one(process: PoolId, range: (i64, i64)) -> Self {
        let mut ranges = Self::default();
        ranges.add(process, range);
        ranges
    }

    fn add(&mut self, process: PoolId, range: (i64, i64)) {
        self.of_processes.entry(process).or_default().push(range);
        self.count += 1;
    }

    /// Number of runs.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The time of all runs, of overlapping runs in one process once.
    pub(crate) fn total_ns(&self) -> u64 {
        let all = self.of_processes.values().flatten();
        all.fold(0, |sum: u64, range| sum.saturating_add(length_ns(*range)))
    }

    /// The time from the start of the first run to the end of the last; now if there is no run.
    pub(crate) fn range(&self, now_ns: i64) -> (i64, i64) {
        let all = || self.of_processes.values().flatten();
        let first = all().map(|(from, _)| *from).min();
        let last = all().map(|(_, to)| *to).max();
        (first.unwrap_or(now_ns), last.unwrap_or(now_ns))
    }

    /// The part of a sample's time that is within the runs of its process.
    pub(crate) fn part_of(&self, process: PoolId, sample: &RecentSample) -> Weight {
        let (from_ns, to_ns) = (sample.from_ns, sample.to_ns);
        let ranges = self
            .of_processes
            .get(&process)
            .map_or(&[][..], Vec::as_slice);
        let near = ranges.partition_point(|(_, end)| *end < from_ns);
        let near = ranges.get(near..).unwrap_or_default().iter();
        let near = near.take_while(|(begin, _)| *begin <= to_ns);
        let inside = near.fold(0, |sum: u64, (begin, end)| {
            sum.saturating_add(length_ns(((*begin).max(from_ns), (*end).min(to_ns))))
        });
        let whole = length_ns((from_ns, to_ns));
        let part = |ns: u64| {
            let part = u128::from(ns) * u128::from(inside.min(whole)) / u128::from(whole.max(1));
            u64::try_from(part).unwrap_or(ns)
        };
        Weight {
            on_ns: part(sample.weight.on_ns),
            off_ns: part(sample.weight.off_ns),
        }
    }
}

/// Sorts ranges, and joins those that overlap.
fn merge(ranges: &mut Vec<(i64, i64)>) {
    ranges.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::with_capacity(ranges.len());
    for range in ranges.drain(..) {
        match merged.last_mut() {
            Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
            _ => merged.push(range),
        }
    }
    *ranges = merged;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack_tree::NodeNumber;
    use crate::weights::ThreadNumber;

    #[test]
    fn the_part_of_a_sample_within_the_runs_counts() {
        let process = PoolId::new(1);
        let mut runs = RunRanges::default();
        for range in [(100, 200), (150, 250), (400, 500)] {
            runs.add(process, range);
        }
        runs.of_processes.values_mut().for_each(merge);
        assert_eq!((runs.total_ns(), runs.count()), (250, 3));
        assert_eq!(runs.range(9), (100, 500));
        let part = |from_ns, to_ns| {
            let sample = RecentSample {
                from_ns,
                to_ns,
                thread: ThreadNumber(0),
                node: NodeNumber(0),
                weight: Weight {
                    on_ns: 1000,
                    off_ns: 100,
                },
            };
            runs.part_of(process, &sample).on_ns
        };
        assert_eq!(
            [part(0, 90), part(150, 160), part(240, 260)],
            [0, 1000, 500]
        );
        assert_eq!(part(200, 450), 400, "50 of the first, 50 of the second");
        assert_eq!(part(300, 350), 0);
        let other = RecentSample {
            from_ns: 150,
            to_ns: 160,
            thread: ThreadNumber(0),
            node: NodeNumber(0),
            weight: Weight::on(7),
        };
        assert_eq!(runs.part_of(PoolId::new(2), &other), Weight::default());
    }
}
