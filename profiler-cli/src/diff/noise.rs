//! How much a share varies by chance: the interval that contains its change with a probability of
//! about 99 %.
//!
//! Used by [`mod@super::compare`]. Each side consists of units: its runs, or blocks of slices of
//! time if a side has only one run. The interval is that of the percentile bootstrap (B. Efron,
//! "Bootstrap Methods: Another Look at the Jackknife", 1979): the units of each side are drawn
//! again, with repetition, many times, and the change is computed for each draw. For few units,
//! this interval is too narrow for two reasons (T. Hesterberg, "What Teachers Should Know About the
//! Bootstrap", 2015, section 3): draws of n units vary by the factor √((n − 1) / n) too little, and
//! the quantile of the normal distribution stands for that of Student's t distribution. So the
//! deviations of each side are multiplied by the inverse of that factor, and by the ratio of the
//! quantiles for this side.
//!
//! Invariant: the draws depend only on the numbers of units, so the same input gives the same
//! interval.

use std::cell::OnceCell;

/// How often the units are drawn.
const DRAWS: usize = 1000;

/// The part of the changes below the interval, and the part above it.
const TAIL: f64 = 0.005;

/// The 99.5 % quantile of the normal distribution.
const NORMAL: f64 = 2.576;

/// The 99.5 % quantiles of Student's t distribution for 1 to 10 degrees of freedom.
const STUDENT: [f64; 10] = [
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169,
];

/// Any fixed number.
const SEED: u64 = 0x70_72_6f_66;

/// The 99.5 % quantile of Student's t distribution. Above 10 degrees of freedom, the first terms of
/// the Cornish–Fisher expansion (Abramowitz and Stegun, 26.7.5), whose error is below 0.02.
fn student(degrees: usize) -> f64 {
    let listed = degrees.saturating_sub(1);
    STUDENT.get(listed).copied().unwrap_or_else(|| {
        let (z, degrees) = (NORMAL, degrees as f64);
        let first = (z.powi(3) + z) / 4.0;
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
        z + first / degrees + second / degrees.powi(2)
    })
}

/// The time of a function in each unit of a side, and the time of all functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series<'a> {
    pub(super) of: &'a [f64],
    pub(super) all: &'a [f64],
}

impl Series<'_> {
    /// The share over all units, in percent.
    pub(super) fn percent(self) -> f64 {
        percent(self.of.iter().sum(), self.all.iter().sum())
    }
}

fn percent(of: f64, all: f64) -> f64 {
    if all > 0.0 { of / all * 100.0 } else { 0.0 }
}

/// How often each of some units occurs in each draw.
#[derive(Debug)]
struct Draws {
    units: usize,
    /// The units of the first draw, of the second, and so on.
    counts: Vec<f64>,
    /// What deviations are multiplied by.
    factor: f64,
}

impl Draws {
    /// Draws from at least two units.
    fn new(units: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut counts = vec![0.0; units * DRAWS];
        for draw in counts.chunks_mut(units) {
            for _ in 0..units {
                if let Some(count) = draw.get_mut(random.usize(0..units)) {
                    *count += 1.0;
                }
            }
        }
        let others = units - 1;
        let too_little = (units as f64 / others as f64).sqrt();
        Self {
            units,
            counts,
            factor: too_little * student(others) / NORMAL,
        }
    }

    /// The deviation of the share from that of all units in each draw, in percentage points.
    fn deviations(&self, series: Series<'_>) -> impl Iterator<Item = f64> {
        let whole = series.percent();
        self.counts.chunks(self.units).map(move |draw| {
            let weighted = |values: &[f64]| -> f64 {
                let products = draw.iter().zip(values).map(|(count, value)| count * value);
                products.sum()
            };
            (percent(weighted(series.of), weighted(series.all)) - whole) * self.factor
        })
    }
}

/// The draws of both sides, for each number of units, when they are needed.
#[derive(Debug)]
pub(super) struct Resampling {
    before: Vec<OnceCell<Draws>>,
    after: Vec<OnceCell<Draws>>,
    /// The smallest number of units for which there is an interval, at least 2.
    least: usize,
}

impl Resampling {
    /// Draws from at most these numbers of units, and from at least `least`.
    pub(super) fn new(before: usize, after: usize, least: usize) -> Self {
        let cells = |units: usize| (0..=units).map(|_| OnceCell::new()).collect();
        Self {
            before: cells(before),
            after: cells(after),
            least: least.max(2),
        }
    }

    /// The ends of the interval of the change of a share, in percentage points; `None` if a side
    /// has too few units. The time of all functions must be positive in each unit.
    pub(super) fn interval(&self, before: Series<'_>, after: Series<'_>) -> Option<(f64, f64)> {
        let before_draws = self.draws(&self.before, before.all.len(), SEED)?;
        let after_draws = self.draws(&self.after, after.all.len(), SEED + 1)?;
        let change = after.percent() - before.percent();
        let deviations = before_draws
            .deviations(before)
            .zip(after_draws.deviations(after));
        let mut changes: Vec<f64> = deviations
            .map(|(before, after)| change + after - before)
            .collect();
        changes.sort_by(f64::total_cmp);
        let outside = (changes.len() as f64 * TAIL) as usize;
        let low = changes.get(outside).copied();
        low.zip(changes.iter().rev().nth(outside).copied())
    }

    fn draws<'c>(&self, of: &'c [OnceCell<Draws>], units: usize, seed: u64) -> Option<&'c Draws> {
        let cell = of.get(units).filter(|_| units >= self.least)?;
        Some(cell.get_or_init(|| Draws::new(units, seed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shares of runs that vary by `noise` points around `percent`.
    fn runs(count: usize, percent: f64, noise: f64, random: &mut fastrand::Rng) -> Vec<f64> {
        (0..count)
            .map(|_| percent + noise * (random.f64() + random.f64() + random.f64() - 1.5))
            .collect()
    }

    fn interval(before: &[f64], after: &[f64]) -> Option<(f64, f64)> {
        let (all_before, all_after) = (vec![100.0; before.len()], vec![100.0; after.len()]);
        Resampling::new(before.len(), after.len(), 2).interval(
            Series {
                of: before,
                all: &all_before,
            },
            Series {
                of: after,
                all: &all_after,
            },
        )
    }

    fn is_more_than_noise(before: &[f64], after: &[f64]) -> bool {
        let (low, high) = interval(before, after).unwrap();
        assert!(low <= high);
        low > 0.0 || high < 0.0
    }

    /// How many of 200 comparisons find a change of `points`.
    fn found(counts: (usize, usize), points: f64) -> usize {
        let mut random = fastrand::Rng::with_seed(1);
        let compare = |_: &i32| {
            let before = runs(counts.0, 20.0, 2.0, &mut random);
            let after = runs(counts.1, 20.0 + points, 2.0, &mut random);
            is_more_than_noise(&before, &after)
        };
        (0..200).filter(compare).count()
    }

    #[test]
    fn a_change_within_the_differences_between_the_runs_is_noise() {
        for counts in [(3, 3), (5, 5), (3, 20), (20, 4)] {
            let mistakes = found(counts, 0.0);
            assert!(mistakes <= 8, "{counts:?}: {mistakes} of 200");
        }
    }

    #[test]
    fn a_change_beyond_the_differences_between_the_runs_is_found() {
        for counts in [(5, 5), (5, 20)] {
            let found = found(counts, 6.0);
            assert!(found >= 190, "{counts:?}: {found} of 200");
        }
    }

    #[test]
    fn the_interval_has_the_width_of_the_normal_distribution() {
        // 400 units whose shares have a standard deviation of 1 point: the change has
        // √(2 / 400), and the interval 2.576 times as much on both sides.
        let mut random = fastrand::Rng::with_seed(3);
        let normal = |random: &mut fastrand::Rng| -> Vec<f64> {
            (0..400)
                .map(|_| 50.0 + (0..12).map(|_| random.f64()).sum::<f64>() - 6.0)
                .collect()
        };
        let (before, after) = (normal(&mut random), normal(&mut random));
        let (low, high) = interval(&before, &after).unwrap();
        let expected = 2.0 * 2.576 * (2.0_f64 / 400.0).sqrt();
        assert!((high - low) / expected > 0.8 && (high - low) / expected < 1.2);
    }

    #[test]
    fn the_quantiles_of_few_and_many_units_continue_each_other() {
        let quantiles: Vec<f64> = (1..200).map(student).collect();
        assert!(quantiles.is_sorted_by(|one, next| one > next));
        assert!((student(11) - 3.106).abs() < 0.02 && (student(60) - 2.660).abs() < 0.01);
    }

    #[test]
    fn too_few_units_give_no_interval() {
        assert_eq!(interval(&[10.0], &[20.0, 30.0, 40.0]), None);
        let of = [10.0; 3];
        let series = Series {
            of: &of,
            all: &[100.0; 3],
        };
        assert_eq!(Resampling::new(3, 3, 4).interval(series, series), None);
        assert_eq!(
            Resampling::new(3, 3, 3).interval(series, series),
            Some((0.0, 0.0))
        );
    }
}
