//! The totals of a group as plain numbers: parsed, subtracted, added, serialised.
//!
//! Invariants: all numbers of one group only grow during a session of its process, except peaks,
//! which cover the last seconds, and time off the processor, which is a difference. Differences are
//! taken number by number and are never below zero.

use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::durations::{BUCKETS, PLACES, place_from_ns};
use crate::pool::live::group::{PEAK_END_BITS, PEAK_UNIT_NS, PEAKS, word as at};
use crate::reader::source::word;

/// Number of runs by duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Vec<u64>);

impl Histogram {
    /// A histogram of at most `places` places. Stores only the places up to the last one that is
    /// not empty.
    fn of(places: usize, count: impl Fn(usize) -> u64) -> Self {
        let used = (0..places)
            .rev()
            .find(|place| count(*place) != 0)
            .map_or(0, |last| last + 1);
        Self((0..used).map(count).collect())
    }

    /// The places that are not empty: the shortest duration of the place in nanoseconds, and its
    /// runs.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = self
            .0
            .iter()
            .enumerate()
            .map(|(place, count)| (place_from_ns(place), *count));
        all.filter(|(_, count)| *count != 0)
    }

    /// Runs in all places.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Lower bound of the longest run in nanoseconds; 0 if there is none.
    pub fn longest_ns(&self) -> u64 {
        self.0.len().checked_sub(1).map_or(0, place_from_ns)
    }

    /// An approximate duration in nanoseconds that at least this share (0 to 1) of all runs did not
    /// exceed; 0 if there are no runs.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss
        )]
        // A share of a count needs no more precision.
        let wanted =
            ((share.clamp(0.0, 1.0) * self.total() as f64).ceil() as u64).min(self.total());
        let mut sum = 0_u64;
        let found = self.0.iter().position(|count| {
            sum = sum.saturating_add(*count);
            sum >= wanted
        });
        found
            .filter(|_| !self.0.is_empty())
            .map_or(0, |place| place_from_ns(place + 1))
    }

    fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }

    fn combine(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let at = |counts: &Vec<u64>, place| counts.get(place).copied().unwrap_or(0);
        let places = self.0.len().max(other.0.len());
        Self::of(places, |place| {
            combine(at(&self.0, place), at(&other.0, place))
        })
    }
}

/// Serialised as pairs of lower bound in nanoseconds and count.
impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pairs = serializer.serialize_seq(None)?;
        self.counts()
            .try_for_each(|pair| pairs.serialize_element(&pair))?;
        pairs.end()
    }
}

/// The longest run that ended within one period of about half a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Peak {
    /// When it ended, in nanoseconds since the session's start, a multiple of 16 µs.
    pub ended_ns: u64,
    /// Its duration in nanoseconds, rounded down to 16 µs; 268 s if it was longer.
    pub duration_ns: u64,
}

/// The totals of a group. Times in nanoseconds. During a session no number is less than in an
/// earlier reading, except `off_cpu_ns` in a reading that is not settled.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupTotals {
    /// Number of entries from outside; more than runs if an iteration entered the group several
    /// times.
    pub ticks: u64,
    /// Timed runs: iterations of a thread that worked for the group. Needs `JANK`.
    pub runs: u64,
    /// Time in the group, of all threads together. Needs `JANK` or `CPU`: it is 0 until these are
    /// monitored, as by `Session::monitor`, and lacks the time before.
    pub wall_ns: u64,
    /// The part of `wall_ns` whose processor time is known.
    pub measured_ns: u64,
    /// Processor time in that part. Needs `CPU`.
    pub cpu_ns: u64,
    /// The remainder of that part: waiting for a lock, for the disk, for a processor.
    pub off_cpu_ns: u64,
    /// Time in blocking calls. Needs `BLOCKING`.
    pub blocking_ns: u64,
    /// Spans discarded because the clock went backwards.
    pub discarded: u64,
    /// Spans discarded because the thread had moved to another processor, where that matters.
    pub moved: u64,
    /// How often the group was left for a nested loop, whose time is not included.
    pub nested: u64,
    /// Runs of more than 2^i ms, i = 0…9.
    pub durations: [u64; BUCKETS],
    /// Number of runs by duration, from 1 µs.
    pub histogram: Histogram,
    /// Duration of the longest run. In a difference whose longest run is no longer than an earlier
    /// run: exact to 16 µs if the run is one of `peaks`, otherwise its lower bound in the
    /// histogram, at most 12.6 s.
    pub longest_ns: u64,
    /// The longest runs of the last seconds, oldest first.
    pub peaks: Vec<Peak>,
    /// Whether all numbers are from one instant. If not, a thread was adding to them, or died while
    /// it did.
    pub is_settled: bool,
}

impl GroupTotals {
    /// Totals of a group without any work.
    pub fn nothing() -> Self {
        Self::parse(&[])
    }

    /// The totals in a cell.
    pub(crate) fn parse(cell: &[u8]) -> Self {
        let of = |index| word(cell, index);
        let histogram = Histogram::of(PLACES, |place| of(at::HISTOGRAM + place));
        let measured_ns = of(at::MEASURED);
        let cpu_ns = of(at::CPU);
        let totals = Self {
            ticks: of(at::TICKS),
            runs: of(at::RUNS),
            wall_ns: of(at::WALL),
            measured_ns,
            cpu_ns,
            off_cpu_ns: 0,
            blocking_ns: of(at::BLOCKING),
            discarded: of(at::DISCARDED),
            moved: of(at::MOVED),
            nested: of(at::NESTED),
            durations: std::array::from_fn(|bucket| of(at::DURATIONS + bucket)),
            histogram,
            longest_ns: of(at::LONGEST),
            peaks: peaks(cell),
            is_settled: of(at::BEGUN) == of(at::ENDED),
        };
        totals.derived()
    }

    /// The increase since `earlier`, for the same group: number by number and bucket by bucket.
    /// Earlier peaks are left out, and the longest run is determined anew.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.combine(earlier, u64::saturating_sub);
        difference.peaks = self
            .peaks
            .iter()
            .filter(|peak| !earlier.peaks.contains(peak))
            .copied()
            .collect();
        difference.is_settled = self.is_settled && earlier.is_settled;
        // Longer than all runs before, so it belongs to this period.
        difference.longest_ns = if self.longest_ns > earlier.longest_ns {
            self.longest_ns
        } else {
            0
        };
        difference.derived()
    }

    /// The sum of both, for example of one group in two processes.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self::sum([self, other])
    }

    /// The sum of all, for example of one group in many processes. Takes about as long as reading
    /// all of them.
    #[must_use]
    pub fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = all.into_iter();
        let Some(mut sum) = all.next().cloned() else {
            return Self::nothing();
        };
        let mut peaks = std::mem::take(&mut sum.peaks);
        let mut is_settled = sum.is_settled;
        let mut longest_ns = sum.longest_ns;
        for totals in all {
            longest_ns = totals.longest_ns.max(longest_ns);
            sum.add(totals);
            peaks.extend_from_slice(&totals.peaks);
            is_settled &= totals.is_settled;
        }
        peaks.sort_unstable();
        Self {
            peaks,
            is_settled,
            longest_ns,
            ..sum
        }
        .derived()
    }

    /// Index of the highest bucket that is not empty: the longest run took more than 2^i ms.
    pub fn longest_bucket(&self) -> Option<usize> {
        self.durations.iter().rposition(|count| *count != 0)
    }

    /// Whether the group counted no entry, no run and no time.
    pub fn is_idle(&self) -> bool {
        self.ticks == 0 && self.runs == 0 && self.wall_ns == 0
    }

    /// Adds the numbers of `other` in place; derived numbers stay as they are.
    fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.ticks, other.ticks);
        add(&mut self.runs, other.runs);
        add(&mut self.wall_ns, other.wall_ns);
        add(&mut self.measured_ns, other.measured_ns);
        add(&mut self.cpu_ns, other.cpu_ns);
        add(&mut self.blocking_ns, other.blocking_ns);
        add(&mut self.discarded, other.discarded);
        add(&mut self.moved, other.moved);
        add(&mut self.nested, other.nested);
        self.durations
            .iter_mut()
            .zip(&other.durations)
            .for_each(|(sum, more)| add(sum, *more));
        self.histogram.add(&other.histogram);
    }

    fn combine(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        Self {
            ticks: combine(self.ticks, other.ticks),
            runs: combine(self.runs, other.runs),
            wall_ns: combine(self.wall_ns, other.wall_ns),
            measured_ns: combine(self.measured_ns, other.measured_ns),
            cpu_ns: combine(self.cpu_ns, other.cpu_ns),
            off_cpu_ns: 0,
            blocking_ns: combine(self.blocking_ns, other.blocking_ns),
            discarded: combine(self.discarded, other.discarded),
            moved: combine(self.moved, other.moved),
            nested: combine(self.nested, other.nested),
            durations: std::array::from_fn(|bucket| {
                let of = |totals: &Self| totals.durations.get(bucket).copied().unwrap_or(0);
                combine(of(self), of(other))
            }),
            histogram: self.histogram.combine(&other.histogram, combine),
            longest_ns: 0,
            peaks: Vec::new(),
            is_settled: true,
        }
    }

    /// Sets the numbers that are derived from the others.
    fn derived(mut self) -> Self {
        self.off_cpu_ns = self.measured_ns.saturating_sub(self.cpu_ns);
        let peak = self
            .peaks
            .iter()
            .map(|peak| peak.duration_ns)
            .max()
            .unwrap_or(0);
        self.longest_ns = self.longest_ns.max(self.histogram.longest_ns()).max(peak);
        self
    }
}

fn peaks(cell: &[u8]) -> Vec<Peak> {
    let of = |place| word(cell, at::PEAKS + place);
    let peak = |word: u64| Peak {
        ended_ns: (word & ((1 << PEAK_END_BITS) - 1)).saturating_mul(PEAK_UNIT_NS),
        duration_ns: (word >> PEAK_END_BITS).saturating_mul(PEAK_UNIT_NS),
    };
    let mut peaks: Vec<Peak> = (0..PEAKS)
        .map(of)
        .filter(|word| *word != 0)
        .map(peak)
        .collect();
    peaks.sort_unstable();
    peaks
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::pool::live::group::{GroupCell, Run};

    fn run(wall_ms: u64, ended_ms: u64) -> Run {
        let wall_ns = Some(wall_ms * 1_000_000);
        let ended_ns = ended_ms * 1_000_000;
        Run {
            ticks: 1,
            wall_ns,
            cpu_ns: Some(500_000),
            counts_as_run: true,
            ended_ns,
            ..Run::default()
        }
    }

    fn totals(cell: &GroupCell) -> GroupTotals {
        GroupTotals::parse(&cell.bytes())
    }

    #[test]
    fn p9_quantiles_rise_for_counts_that_a_float_cannot_hold() {
        // As a floating-point number, their sum would be too large.
        let forged = Histogram(vec![1, (1 << 63) + 2046]);
        let shares = [0.0, 0.5, 1.0].map(|share| forged.quantile_ns(share));
        assert!(
            shares.is_sorted() && shares[2] == place_from_ns(2),
            "{shares:?}"
        );
    }

    #[test]
    fn p9_runs_of_known_lengths_give_the_exact_vector() {
        let cell = GroupCell::zeroed();
        for us in [500, 3_000, 70_000, 600_000] {
            cell.commit(&Run {
                wall_ns: Some(us * 1000),
                ..run(0, 10_000)
            });
        }
        let totals = totals(&cell);
        assert_eq!(totals.durations, [3, 3, 2, 2, 2, 2, 2, 1, 1, 1]);
        assert!(totals.durations.is_sorted_by(|a, b| a >= b), "never rising");
        assert_eq!(
            (
                totals.runs,
                totals.histogram.total(),
                totals.longest_bucket()
            ),
            (4, 4, Some(9))
        );
        assert_eq!(totals.longest_ns, 600_000_000);
    }

    #[test]
    fn p12_a_difference_is_taken_field_by_field_with_its_own_longest_run() {
        let cell = GroupCell::zeroed();
        cell.commit(&run(600, 1_060));
        let before = totals(&cell);
        cell.commit(&run(3, 1_100)); // shorter, in the same period: not the peak
        cell.commit(&run(70, 2_000));
        let after = totals(&cell);
        let difference = after.since(&before);
        assert_eq!(
            (difference.ticks, difference.runs, difference.wall_ns),
            (2, 2, 73_000_000)
        );
        assert_eq!(
            (difference.cpu_ns, difference.off_cpu_ns),
            (1_000_000, 72_000_000)
        );
        assert_eq!(difference.durations, [2, 2, 1, 1, 1, 1, 1, 0, 0, 0]);
        assert!(
            (69_984_000..=70_000_000).contains(&difference.longest_ns),
            "{}",
            difference.longest_ns
        );
        assert_eq!(difference.peaks.len(), 1);
        assert_eq!(
            after.since(&GroupTotals::nothing()).ticks,
            3,
            "a new group against zero"
        );
    }

    #[test]
    fn p13_totals_with_a_commit_under_way_are_not_settled() {
        let cell = GroupCell::zeroed();
        cell.commit(&run(1, 1));
        assert!(totals(&cell).is_settled);
        let mut bytes = cell.bytes();
        bytes[8] = 9; // more begun than ended
        assert!(!GroupTotals::parse(&bytes).is_settled);
    }

    #[test]
    fn p13_the_longest_duration_stays_when_its_peak_is_replaced() {
        let cell = GroupCell::zeroed();
        cell.commit(&run(110, 1_000));
        let before = totals(&cell);
        (2..60).for_each(|second| cell.commit(&run(1, second * 1_000)));
        let after = totals(&cell);
        assert!(
            after.peaks.iter().all(|peak| peak.duration_ns <= 1_000_000),
            "its peak is gone"
        );
        assert_eq!(
            (before.longest_ns, after.longest_ns),
            (110_000_000, 110_000_000)
        );
        assert!(
            after.since(&before).longest_ns <= 1_000_000,
            "the longest run ended before"
        );
        assert_eq!(
            GroupTotals::sum([&after, &after.since(&before)]).longest_ns,
            110_000_000
        );
    }

    #[test]
    fn peaks_cover_the_last_seconds_and_an_older_run_does_not_replace_a_newer_peak() {
        let cell = GroupCell::zeroed();
        for second in 1..=60 {
            cell.commit(&run(second, second * 1_000));
        }
        cell.commit(&run(9_000, 54_000)); // not kept: its slot holds a peak about 5 s later
        let peaks = totals(&cell).peaks;
        assert!(peaks.len() <= PEAKS && peaks.iter().any(|peak| peak.duration_ns > 59_900_000));
        assert!(
            peaks
                .iter()
                .all(|peak| peak.duration_ns < 9_000_000_000 || peak.ended_ns > 53_000_000_000)
        );
    }

    #[test]
    fn quantiles_and_sums() {
        let cell = GroupCell::zeroed();
        (0..9).for_each(|_| cell.commit(&run(1, 1)));
        cell.commit(&run(100, 2));
        let totals = totals(&cell);
        assert!(totals.histogram.quantile_ns(0.5) < 1_300_000);
        assert!(totals.histogram.quantile_ns(1.0) >= 100_000_000);
        let both = totals.plus(&totals);
        assert_eq!(
            (both.ticks, both.histogram.total(), both.wall_ns),
            (20, 20, 2 * totals.wall_ns)
        );
        let three = GroupTotals::sum([&totals, &totals, &totals]);
        assert_eq!((&three, three.ticks), (&both.plus(&totals), 30));
        assert_eq!(GroupTotals::sum([]), GroupTotals::nothing());
        assert_eq!(Histogram::default().quantile_ns(0.5), 0);
    }
}
