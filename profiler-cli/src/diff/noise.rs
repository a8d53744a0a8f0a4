//! How much a share varies by chance: the interval that contains its change with a probability of
//! about 99 %, and the p-value of the change, which is the probability of a change that is at least
//! as large if the share is the same on both sides.
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
//! The p-value is that of the two-sided test of B. L. Welch ("The Generalization of Student's
//! Problem when Several Different Population Variances are Involved", 1947), with the variances of
//! the same draws. The correction in [`super::many_tests`] needs it, because a thousand draws
//! cannot resolve probabilities below a thousandth. If one side has few units and the other many,
//! the few may be close to each other by chance, and Welch's degrees of freedom are then too many.
//! They are therefore limited to those of two sides with the smaller number of units.
//!
//! Invariant: the draws depend only on the numbers of units, so the same input gives the same
//! result.

use std::cell::OnceCell;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::changes::Sides;

/// How often the units are drawn.
const DRAWS: usize = 1000;

/// The part of the changes below the interval, and the part above it.
const TAIL: f64 = 0.005;

/// The 99.5 % quantile of the normal distribution.
const NORMAL: f64 = 2.576;

/// Smaller changes, in percentage points, come from the rounding of sums.
const ROUNDING: f64 = 1e-9;

/// Any fixed number.
const SEED: u64 = 0x70_72_6f_66;

/// The 99.5 % quantile of Student's t distribution.
fn student(degrees: usize) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, degrees as f64);
    distribution.map_or(f64::INFINITY, |distribution| {
        distribution.inverse_cdf(1.0 - TAIL)
    })
}

/// The probability that a variable with Student's t distribution is farther from 0 than `distance`.
fn beyond(distance: f64, degrees: f64) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, degrees);
    distribution.map_or(1.0, |distribution| 2.0 * distribution.sf(distance.abs()))
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
    /// What deviations are multiplied by, because draws vary too little.
    factor: f64,
    /// What deviations are multiplied by for the interval.
    ratio_of_quantiles: f64,
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
        Self {
            units,
            counts,
            factor: (units as f64 / others as f64).sqrt(),
            ratio_of_quantiles: student(others) / NORMAL,
        }
    }

    /// The deviation of the share from that of all units in each draw, in percentage points.
    fn deviations(&self, series: Series<'_>) -> Vec<f64> {
        let whole = series.percent();
        let deviation = |draw: &[f64]| {
            let weighted = |values: &[f64]| -> f64 {
                let products = draw.iter().zip(values).map(|(count, value)| count * value);
                products.sum()
            };
            (percent(weighted(series.of), weighted(series.all)) - whole) * self.factor
        };
        self.counts.chunks(self.units).map(deviation).collect()
    }

    /// The degrees of freedom of this side's variance.
    fn degrees(&self) -> f64 {
        (self.units - 1) as f64
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

    /// Tests the change of a share; `None` if a side has too few units. The time of all
    /// functions must be positive in each unit.
    pub(super) fn test(&self, before: Series<'_>, after: Series<'_>) -> Option<Test> {
        let draws = Sides {
            before: self.draws(&self.before, before.all.len(), SEED)?,
            after: self.draws(&self.after, after.all.len(), SEED + 1)?,
        };
        let deviations = Sides {
            before: draws.before.deviations(before),
            after: draws.after.deviations(after),
        };
        let change = after.percent() - before.percent();
        Some(Test {
            interval: interval(change, &draws, &deviations)?,
            probability: probability(change, &draws, &deviations),
        })
    }

    fn draws<'c>(&self, of: &'c [OnceCell<Draws>], units: usize, seed: u64) -> Option<&'c Draws> {
        let cell = of.get(units).filter(|_| units >= self.least)?;
        Some(cell.get_or_init(|| Draws::new(units, seed)))
    }
}

/// The interval and the p-value of the change of a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Test {
    /// The ends of the interval of the change, in percentage points.
    pub(super) interval: (f64, f64),
    /// The p-value.
    pub(super) probability: f64,
}

fn interval(
    change: f64,
    draws: &Sides<&Draws>,
    deviations: &Sides<Vec<f64>>,
) -> Option<(f64, f64)> {
    let sides = deviations.before.iter().zip(&deviations.after);
    let mut changes: Vec<f64> = sides
        .map(|(before, after)| {
            change + after * draws.after.ratio_of_quantiles
                - before * draws.before.ratio_of_quantiles
        })
        .collect();
    changes.sort_by(f64::total_cmp);
    let outside = (changes.len() as f64 * TAIL) as usize;
    let low = changes.get(outside).copied();
    low.zip(changes.iter().rev().nth(outside).copied())
}

fn probability(change: f64, draws: &Sides<&Draws>, deviations: &Sides<Vec<f64>>) -> f64 {
    let before = variance(&deviations.before);
    let after = variance(&deviations.after);
    let both = before + after;
    if change.abs() < ROUNDING {
        return 1.0;
    }
    if both <= 0.0 {
        return 0.0;
    }
    // The degrees of freedom of the sum, by Welch and Satterthwaite.
    let parts = before.powi(2) / draws.before.degrees() + after.powi(2) / draws.after.degrees();
    let fewer = draws.before.degrees().min(draws.after.degrees());
    let degrees = (both.powi(2) / parts).min(2.0 * fewer);
    let distance = change / both.sqrt();
    // The sums of a damaged profile may be infinite.
    if distance.is_nan() {
        return 1.0;
    }
    beyond(distance, degrees)
}

/// The mean of the squares of deviations from the share of all units.
fn variance(deviations: &[f64]) -> f64 {
    let squares: f64 = deviations.iter().map(|deviation| deviation.powi(2)).sum();
    squares / deviations.len().max(1) as f64
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

    fn test(before: &[f64], after: &[f64]) -> Option<Test> {
        let (all_before, all_after) = (vec![100.0; before.len()], vec![100.0; after.len()]);
        Resampling::new(before.len(), after.len(), 2).test(
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

    fn interval(before: &[f64], after: &[f64]) -> Option<(f64, f64)> {
        test(before, after).map(|test| test.interval)
    }

    fn is_more_than_noise(before: &[f64], after: &[f64]) -> bool {
        let (low, high) = interval(before, after).unwrap();
        assert!(low <= high);
        low > 0.0 || high < 0.0
    }

    /// How many of 200 comparisons find a change of `points`.
    fn found(
        counts: (usize, usize),
        points: f64,
        is_found: impl Fn(&[f64], &[f64]) -> bool,
    ) -> usize {
        let mut random = fastrand::Rng::with_seed(1);
        let compare = |_: &i32| {
            let before = runs(counts.0, 20.0, 2.0, &mut random);
            let after = runs(counts.1, 20.0 + points, 2.0, &mut random);
            is_found(&before, &after)
        };
        (0..200).filter(compare).count()
    }

    #[test]
    fn small_probabilities_are_rare_without_a_change_and_usual_with_one() {
        let probability = |before: &[f64], after: &[f64]| test(before, after).unwrap().probability;
        for counts in [(3, 3), (5, 5), (3, 20), (20, 4)] {
            let of = |limit: f64| {
                found(counts, 0.0, |before, after| {
                    probability(before, after) < limit
                })
            };
            // 20 and 2 of 200 are expected.
            assert!(of(0.1) <= 32 && of(0.01) <= 8, "{counts:?}");
            assert!(of(0.5) >= 60, "{counts:?}: the test is not too careful");
        }
        let clear = found((5, 5), 10.0, |before, after| {
            probability(before, after) < 1e-3
        });
        assert!(clear >= 190, "{clear} of 200");
        assert_eq!(probability(&[10.0; 3], &[10.0; 3]), 1.0);
        assert_eq!(probability(&[10.0; 3], &[20.0; 3]), 0.0);
    }

    #[test]
    fn a_change_within_the_differences_between_the_runs_is_noise() {
        for counts in [(3, 3), (5, 5), (3, 20), (20, 4)] {
            let mistakes = found(counts, 0.0, is_more_than_noise);
            assert!(mistakes <= 8, "{counts:?}: {mistakes} of 200");
        }
    }

    #[test]
    fn a_change_beyond_the_differences_between_the_runs_is_found() {
        for counts in [(5, 5), (5, 20)] {
            let found = found(counts, 6.0, is_more_than_noise);
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
    fn infinite_sums_are_no_change() {
        for odd in [f64::MAX, f64::INFINITY, f64::NAN] {
            let test = test(&[odd; 3], &[10.0, 20.0, 30.0]).unwrap();
            assert_eq!(test.probability, 1.0, "{odd}");
        }
    }

    #[test]
    fn too_few_units_give_no_interval() {
        assert_eq!(interval(&[10.0], &[20.0, 30.0, 40.0]), None);
        let of = [10.0; 3];
        let series = Series {
            of: &of,
            all: &[100.0; 3],
        };
        assert_eq!(Resampling::new(3, 3, 4).test(series, series), None);
        assert_eq!(
            Resampling::new(3, 3, 3).test(series, series),
            Some(Test {
                interval: (0.0, 0.0),
                probability: 1.0
            })
        );
    }
}
