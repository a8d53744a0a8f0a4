//! Blocks of samples: short slices of time, which are assigned to the blocks in turn.
//!
//! Used by [`super::functions`]. Samples that are close to each other are similar, so they belong
//! to the same slice. A sample that is longer than a slice is divided: otherwise a long wait would
//! be in a single block, and all shares of the wall time would seem to vary. Invariant: the parts
//! of a sample add up to its cost.

use super::cost::Cost;

/// Limit on the length of a divided sample, and on its distance from the session's start: 31,000
/// years.
const FARTHEST_MS: f64 = 1e15;

/// How the samples of a profile are divided into blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// The number of blocks, at least 1.
    pub(crate) count: usize,
    /// The length of a slice in milliseconds.
    pub(crate) slice_ms: f64,
}

impl Blocks {
    /// One block with all samples.
    pub(crate) const ONE: Self = Self {
        count: 1,
        slice_ms: f64::INFINITY,
    };

    /// Calls `add` with the blocks of a sample, and with the part of its cost in each. The sample was
    /// taken at `ms`, and the time that it stands for begins at `start`.
    pub(super) fn divide(
        self,
        (start, ms): (f64, f64),
        cost: Cost,
        mut add: impl FnMut(usize, Cost),
    ) {
        let length = cost.wall_ms;
        let is_long = length > self.slice_ms && length < FARTHEST_MS && ms.abs() < FARTHEST_MS;
        if self.count < 2 || !is_long {
            return add(self.block(self.slice(ms)), cost);
        }
        let end = start + length;
        // The wait covers whole rounds of all blocks, and a rest.
        let round_ms = self.slice_ms * self.count as f64;
        let rounds = (length / round_ms).floor();
        let in_rounds = rounds * self.slice_ms / length;
        let first = self.slice(start + rounds * round_ms);
        let mut parts = vec![in_rounds; self.count];
        for slice in (first..).take(self.count + 1) {
            let from = (slice as f64 * self.slice_ms).max(start + rounds * round_ms);
            let to = ((slice + 1) as f64 * self.slice_ms).min(end);
            if let Some(part) = parts.get_mut(self.block(slice)).filter(|_| to > from) {
                *part += (to - from) / length;
            }
        }
        for (block, part) in parts
            .into_iter()
            .enumerate()
            .filter(|(_, part)| *part > 0.0)
        {
            add(block, cost * part);
        }
    }

    fn slice(self, ms: f64) -> i64 {
        (ms / self.slice_ms).floor() as i64
    }

    fn block(self, slice: i64) -> usize {
        let blocks = i64::try_from(self.count).unwrap_or(i64::MAX);
        usize::try_from(slice.rem_euclid(blocks)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: Blocks = Blocks {
        count: 4,
        slice_ms: 10.0,
    };

    fn parts(ms: f64, cost: Cost) -> Vec<f64> {
        parts_from(ms - cost.wall_ms, ms, cost)
    }

    fn parts_from(start: f64, ms: f64, cost: Cost) -> Vec<f64> {
        let mut parts = vec![0.0; BLOCKS.count];
        BLOCKS.divide((start, ms), cost, |block, cost| {
            parts[block] += cost.wall_ms;
        });
        parts
    }

    fn ticks(count: f64) -> Cost {
        Cost {
            samples: 1.0,
            wall_ms: count,
            ..Cost::default()
        }
    }

    fn near(parts: Vec<f64>, expected: [f64; 4]) {
        let is_near = parts
            .iter()
            .zip(expected)
            .all(|(one, other)| (one - other).abs() < 1e-9);
        assert!(is_near, "{parts:?} {expected:?}");
    }

    #[test]
    fn a_short_sample_is_in_the_block_of_its_time() {
        near(parts(25.0, ticks(1.0)), [0.0, 0.0, 1.0, 0.0]);
        near(parts(-1.0, ticks(10.0)), [0.0, 0.0, 0.0, 10.0]);
    }

    #[test]
    fn a_long_wait_is_divided_among_the_blocks_that_it_covers() {
        // From 5 to 30 ms.
        near(parts(30.0, ticks(25.0)), [5.0, 10.0, 10.0, 0.0]);
        // From 35 to 125 ms: two rounds, and from 115 to 125.
        near(parts(125.0, ticks(90.0)), [25.0, 20.0, 20.0, 25.0]);
    }

    #[test]
    fn a_sample_with_a_duration_lasts_from_its_time_onwards() {
        let timed = Cost {
            samples: 1.0,
            wall_ms: 30.0,
            cpu_ms: 0.0,
        };
        near(parts_from(15.0, 15.0, timed), [5.0, 5.0, 10.0, 10.0]);
    }

    #[test]
    fn the_parts_add_up_for_any_numbers() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..1000 {
            let cost = ticks(random.f64() * 500.0);
            let sum: f64 = parts(random.f64() * 1e4 - 5e3, cost).iter().sum();
            assert!((sum - cost.wall_ms).abs() < 1e-6, "{sum} {cost:?}");
        }
        for odd in [f64::NAN, f64::INFINITY, 1e300] {
            let sum: f64 = parts(odd, ticks(1e12)).iter().sum();
            assert!(sum.is_finite());
        }
    }
}
