//! The latest samples of one process, kept one by one while a request needs them: the samples of a
//! group are selected by the time of its runs.
//!
//! Filled while a pool is read ([`crate::process`]), read for a request. Invariants: at most
//! [`MAX_RECENT`] samples are kept; the time of a sample that does not fit is counted as long as
//! the sample would be kept.

use std::collections::VecDeque;

use crate::stack_tree::NodeNumber;
use crate::weights::{ThreadNumber, Weight};

/// How long samples are kept: longer than the pools remember the runs of a group.
const RECENT_NS: i64 = 6_000_000_000;
/// Limit on the samples of one process.
const MAX_RECENT: usize = 1 << 16;

/// A sample, or a part of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentSample {
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
    pub(crate) thread: ThreadNumber,
    pub(crate) node: NodeNumber,
    pub(crate) weight: Weight,
}

/// The latest samples of one process, in the order in which they were read. Before them are the
/// samples of older chunks: each chunk before those that were read earlier, its samples in the
/// order of their times. With them are the samples of newer chunks that were put off until then.
#[derive(Debug, Default)]
pub(crate) struct RecentSamples {
    all: VecDeque<RecentSample>,
    /// The samples of an older chunk that is being read, which has at most some 10,000.
    older: Vec<RecentSample>,
    left_out: Weight,
    /// The end of the latest sample that was left out.
    left_out_ns: i64,
}

impl RecentSamples {
    /// Keeps a sample, unless it is too old. If there is no room, the oldest sample is left out.
    pub(crate) fn keep(&mut self, sample: RecentSample, now_ns: i64) {
        self.keep_within(MAX_RECENT, sample, now_ns);
    }

    /// Keeps a sample of a chunk that is older than all that were read, unless it is too old.
    /// [`Self::end_older`] ends the chunk.
    pub(crate) fn keep_older(&mut self, sample: RecentSample, now_ns: i64) {
        if !is_old(&sample, now_ns) {
            self.older.push(sample);
        }
    }

    /// Puts the samples of an older chunk before the others. If there is no room for all of them,
    /// the oldest are left out.
    pub(crate) fn end_older(&mut self) {
        self.end_older_within(MAX_RECENT);
    }

    fn end_older_within(&mut self, most: usize) {
        let mut older = std::mem::take(&mut self.older);
        older.sort_by_key(|sample| sample.to_ns);
        for sample in older.iter().rev() {
            if self.all.len() < most {
                self.all.push_front(*sample);
            } else {
                self.leave_out(sample);
            }
        }
    }

    fn keep_within(&mut self, most: usize, sample: RecentSample, now_ns: i64) {
        if is_old(&sample, now_ns) {
            return;
        }
        if self.all.len() >= most
            && let Some(oldest) = self.all.pop_front()
            && !is_old(&oldest, now_ns)
        {
            self.leave_out(&oldest);
        }
        self.all.push_back(sample);
    }

    fn leave_out(&mut self, sample: &RecentSample) {
        self.left_out = self.left_out.plus(sample.weight);
        self.left_out_ns = self.left_out_ns.max(sample.to_ns);
    }

    /// Drops the samples that are too old.
    pub(crate) fn forget_old(&mut self, now_ns: i64) {
        while self.all.front().is_some_and(|one| is_old(one, now_ns)) {
            self.all.pop_front();
        }
        if is_before(self.left_out_ns, now_ns) {
            self.left_out = Weight::default();
        }
    }

    /// The samples that are kept.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecentSample> {
        self.all.iter()
    }

    /// The time of the samples of the last seconds for which there was no room.
    pub(crate) const fn left_out(&self) -> Weight {
        self.left_out
    }
}

fn is_old(sample: &RecentSample, now_ns: i64) -> bool {
    is_before(sample.to_ns, now_ns)
}

/// Whether a time is too long ago.
const fn is_before(at_ns: i64, now_ns: i64) -> bool {
    at_ns < now_ns.saturating_sub(RECENT_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn sample(to_ns: i64, on_ns: u64) -> RecentSample {
        RecentSample {
            from_ns: to_ns - 1,
            to_ns,
            thread: ThreadNumber(0),
            node: NodeNumber(0),
            weight: Weight::on(on_ns),
        }
    }

    #[test]
    fn samples_without_room_are_counted_until_they_would_be_forgotten() {
        let mut recent = RecentSamples::default();
        for at in 1..=5 {
            recent.keep_within(3, sample(at * SECOND, 10), 5 * SECOND);
        }
        let kept = |recent: &RecentSamples| recent.iter().map(|one| one.to_ns).collect::<Vec<_>>();
        assert_eq!(kept(&recent), [3 * SECOND, 4 * SECOND, 5 * SECOND]);
        assert_eq!(recent.left_out(), Weight::on(20));
        recent.forget_old(8 * SECOND);
        assert_eq!(recent.left_out(), Weight::on(20));
        recent.forget_old(9 * SECOND);
        assert_eq!(recent.left_out(), Weight::default());
        assert_eq!(kept(&recent), [3 * SECOND, 4 * SECOND, 5 * SECOND]);
    }

    #[test]
    fn samples_of_older_chunks_are_kept_in_order_while_there_is_room_for_the_newest() {
        let mut recent = RecentSamples::default();
        recent.keep_within(5, sample(9 * SECOND, 10), 9 * SECOND);
        for chunk in [&[6, 7, 8][..], &[-2, 3, 4, 5]] {
            for at in chunk {
                recent.keep_older(sample(at * SECOND, 10), 9 * SECOND);
            }
            recent.end_older_within(5);
        }
        let kept = |recent: &RecentSamples| {
            let times = recent.iter().map(|one| one.to_ns / SECOND);
            times.collect::<Vec<_>>()
        };
        assert_eq!(kept(&recent), [5, 6, 7, 8, 9]);
        assert_eq!(recent.left_out(), Weight::on(20), "those of 3 and 4");
        recent.keep_within(5, sample(10 * SECOND, 10), 10 * SECOND);
        assert_eq!(kept(&recent), [6, 7, 8, 9, 10], "the oldest has no room");
        recent.forget_old(13 * SECOND);
        assert_eq!(kept(&recent), [7, 8, 9, 10], "one is too old");
    }

    #[test]
    fn old_samples_take_no_room_and_are_not_counted() {
        let mut recent = RecentSamples::default();
        recent.keep_within(1, sample(100 * SECOND, 10), 100 * SECOND);
        recent.keep_within(1, sample(SECOND, 10), 100 * SECOND);
        assert_eq!(recent.iter().count(), 1);
        recent.keep_within(1, sample(200 * SECOND, 10), 200 * SECOND);
        assert_eq!(
            (recent.iter().count(), recent.left_out()),
            (1, Weight::default())
        );
    }
}
