//! How much a share varies by chance: the interval that contains its change with a probability of
//! 99 %.
//!
//! Used by [`super::compare`]. Each side consists of units: its runs, or blocks of slices of time
//! if it has only one run. The interval is that of the percentile bootstrap (B. Efron, "Bootstrap
//! Methods: Another Look at the Jackknife", 1979): the units of each side are drawn again, with
//! repetition, many times, and the change is computed for each draw. For few units, this interval
//! is too narrow for two reasons (T. Hesterberg, "What Teachers Should Know About the Bootstrap",
//! 2015, section 3): draws of n units vary by the factor √((n − 1) / n) too little, and the quantile
//! of the normal distribution stands for that of Student's t distribution. So the deviations are
//! multiplied by the inverse of that factor, and by the ratio of the quantiles.
//!
//! Invariant: the draws depend only on the numbers of units, so the same input gives the same
//! interval.

/// How often the units are drawn.
const DRAWS: usize = 1000;

/// The part of the changes below the interval, and the part above it.
const TAIL: f64 = 0.005;

/// The 99.5 % quantile of the normal distribution.
const NORMAL: f64 = 2.576;

/// The 99.5 % quantiles of Student's t distribution for 2 to 10 degrees of freedom.
const STUDENT: [f64; 9] = [
    9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169,
];

/// The 99.5 % quantile of Student's t distribution. Above 10 degrees of freedom, the first terms of
/// the Cornish–Fisher expansion (Abramowitz and Stegun, 26.7.5), whose error is below 0.02.
fn student(degrees: usize) -> f64 {
    let listed = degrees.saturating_sub(2);
    STUDENT.get(listed).copied().unwrap_or_else(|| {
        let (z, degrees) = (NORMAL, degrees as f64);
        let first = (z.powi(3) + z) / 4.0;
        let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
        z + first / degrees + second / degrees.powi(2)
    })
}

/// Any fixed number.
const SEED: u64 = 0x70_72_6f_66;

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

/// How often each unit of a side occurs in each draw.
#[derive(Debug)]
struct Draws {
    units: usize,
    /// The units of the first draw, of the second, and so on.
    counts: Vec<f64>,
}

impl Draws {
    fn new(units: usize, random: &mut fastrand::Rng) -> Self {
        let mut counts = vec![0.0; units * DRAWS];
        for draw in counts.chunks_mut(units.max(1)) {
            for _ in 0..units {
                if let Some(count) = draw.get_mut(random.usize(0..units)) {
                    *count += 1.0;
                }
            }
        }
        Self { units, counts }
    }

    /// The deviation of the share from that of all units in each draw, in percentage points.
    fn deviations(&self, series: Series<'_>) -> impl Iterator<Item = f64> {
        let units = self.units as f64;
        let factor = (units / (units - 1.0).max(1.0)).sqrt();
        let whole = series.percent();
        self.counts.chunks(self.units.max(1)).map(move |draw| {
            let weighted = |values: &[f64]| -> f64 {
                draw.iter()
                    .zip(values)
                    .map(|(count, value)| count * value)
                    .sum()
            };
            let all = weighted(series.all);
            // Such a draw has no share.
            let share = if all > 0.0 {
                percent(weighted(series.of), all)
            } else {
                whole
            };
            (share - whole) * factor
        })
    }
}

/// The draws of both sides.
#[derive(Debug)]
pub(super) struct Resampling {
    before: Draws,
    after: Draws,
    /// The ratio of the quantiles.
    factor: f64,
}

impl Resampling {
    /// Draws from these numbers of units, each at least 2.
    pub(super) fn new(before: usize, after: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(SEED);
        Self {
            before: Draws::new(before, &mut random),
            after: Draws::new(after, &mut random),
            factor: student((before + after).saturating_sub(2)) / NORMAL,
        }
    }

    /// The ends of the interval of the change of a share, in percentage points.
    pub(super) fn interval(&self, before: Series<'_>, after: Series<'_>) -> (f64, f64) {
        let change = after.percent() - before.percent();
        let deviations = self
            .before
            .deviations(before)
            .zip(self.after.deviations(after));
        let mut changes: Vec<f64> = deviations
            .map(|(before, after)| change + (after - before) * self.factor)
            .collect();
        changes.sort_by(f64::total_cmp);
        let outside = (changes.len() as f64 * TAIL) as usize;
        let low = changes.get(outside).copied();
        let high = changes.iter().rev().nth(outside).copied();
        (low.unwrap_or(change), high.unwrap_or(change))
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

    fn is_more_than_noise(before: &[f64], after: &[f64]) -> bool {
        let (all_before, all_after) = (vec![100.0; before.len()], vec![100.0; after.len()]);
        let (low, high) = Resampling::new(before.len(), after.len()).interval(
            Series {
                of: before,
                all: &all_before,
            },
            Series {
                of: after,
                all: &all_after,
            },
        );
        assert!(low <= high);
        low > 0.0 || high < 0.0
    }

    #[test]
    fn a_change_within_the_differences_between_the_runs_is_noise() {
        let mut random = fastrand::Rng::with_seed(1);
        let mistakes = (0..200)
            .filter(|_| {
                let before = runs(5, 20.0, 2.0, &mut random);
                let after = runs(5, 20.0, 2.0, &mut random);
                is_more_than_noise(&before, &after)
            })
            .count();
        assert!(mistakes <= 6, "{mistakes} of 200");
    }

    #[test]
    fn a_change_beyond_the_differences_between_the_runs_is_found() {
        let mut random = fastrand::Rng::with_seed(2);
        let found = (0..200)
            .filter(|_| {
                let before = runs(5, 20.0, 2.0, &mut random);
                let after = runs(5, 25.0, 2.0, &mut random);
                is_more_than_noise(&before, &after)
            })
            .count();
        assert!(found >= 190, "{found} of 200");
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
        let all = vec![100.0; 400];
        let (low, high) = Resampling::new(400, 400).interval(
            Series {
                of: &before,
                all: &all,
            },
            Series {
                of: &after,
                all: &all,
            },
        );
        let expected = 2.0 * 2.576 * (2.0_f64 / 400.0).sqrt();
        assert!((high - low) / expected > 0.8 && (high - low) / expected < 1.2);
    }

    #[test]
    fn the_quantiles_of_few_and_many_units_continue_each_other() {
        let quantiles: Vec<f64> = (2..200).map(student).collect();
        assert!(quantiles.is_sorted_by(|one, next| one > next));
        assert!((student(11) - 3.106).abs() < 0.02 && (student(60) - 2.660).abs() < 0.01);
    }

    #[test]
    fn units_without_samples_have_no_share() {
        let resampling = Resampling::new(3, 2);
        let nothing = Series {
            of: &[0.0; 3],
            all: &[0.0; 3],
        };
        let half = Series {
            of: &[1.0, 0.0],
            all: &[2.0, 0.0],
        };
        assert_eq!(resampling.interval(nothing, half), (50.0, 50.0));
    }
}
