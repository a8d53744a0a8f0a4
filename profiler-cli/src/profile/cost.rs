//! The cost of samples, and of a function: of itself, and with all its callees.
//!
//! Added up by [`super::functions`]. Pure.

use std::ops::{AddAssign, Mul};

use profiler_reader::{RawThread, WeightType};

/// The column of weights.
const WEIGHT: usize = 4;

/// The cost of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    /// The number of samples.
    pub(crate) samples: f64,
    /// The time that they stand for, whether their threads ran or waited, in milliseconds.
    pub(crate) wall_ms: f64,
    /// The time that their threads ran, in milliseconds; 0 if processor times were not measured.
    pub(crate) cpu_ms: f64,
}

impl Cost {
    /// The cost of a sample that stands for `wall_ns`, of which the thread ran for `busy_ns`.
    pub(super) fn of_sample(thread: &RawThread, row: usize, wall_ns: i64, busy_ns: u64) -> Self {
        let weight = thread.samples.number(WEIGHT, row);
        let counts = thread.samples.1 == WeightType::Samples && weight.is_finite();
        Self {
            samples: if counts { weight } else { 1.0 },
            wall_ms: wall_ns as f64 / 1e6,
            cpu_ms: busy_ns as f64 / 1e6,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.wall_ms += other.wall_ms;
        self.cpu_ms += other.cpu_ms;
    }
}

impl Mul<f64> for Cost {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            samples: self.samples * factor,
            wall_ms: self.wall_ms * factor,
            cpu_ms: self.cpu_ms * factor,
        }
    }
}

/// A function's own cost, and that of all samples in which it appears.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Costs {
    pub(crate) own: Cost,
    pub(crate) total: Cost,
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Self) {
        self.own += other.own;
        self.total += other.total;
    }
}

/// The sum of costs.
pub(crate) fn sum<C: AddAssign + Default + Copy>(costs: &[C]) -> C {
    let mut sum = C::default();
    costs.iter().for_each(|cost| sum += *cost);
    sum
}
