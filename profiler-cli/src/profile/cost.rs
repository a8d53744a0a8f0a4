//! The cost of samples, and of a function: of itself, and with all its callees.
//!
//! Added up by [`super::functions`]. Pure.

use std::ops::{AddAssign, Mul};

use profiler_reader::{RawThread, WeightType};

/// Columns of the samples.
const CPU: usize = 3;
const WEIGHT: usize = 4;

/// The cost of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) samples: f64,
    /// The number of samples with a duration of their own.
    pub(crate) timed: f64,
    /// The sum of these durations in milliseconds.
    pub(crate) timed_ms: f64,
    /// Processor time, in the profile's unit.
    pub(crate) cpu: f64,
}

impl Cost {
    /// The cost of a sample. The processor time of a thread's first sample counts only with
    /// `knows_first_cpu`.
    pub(super) fn of_sample(thread: &RawThread, row: usize, knows_first_cpu: bool) -> Self {
        let samples = &thread.samples;
        let number = |column| Some(samples.number(column, row)).filter(|number| number.is_finite());
        let cpu = number(CPU).filter(|cpu| (row > 0 || knows_first_cpu) && *cpu > 0.0);
        let cpu = cpu.unwrap_or(0.0);
        let weight = number(WEIGHT).unwrap_or(1.0);
        match samples.1 {
            WeightType::Samples => Self {
                samples: weight,
                cpu,
                ..Self::default()
            },
            WeightType::Milliseconds | WeightType::MillisecondsBefore => Self {
                samples: 1.0,
                timed: 1.0,
                timed_ms: weight,
                cpu,
            },
        }
    }

    /// Wall time in milliseconds; a sample without a duration lasts one interval.
    pub(crate) fn wall_ms(&self, interval_ms: f64) -> f64 {
        (self.samples - self.timed) * interval_ms + self.timed_ms
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.timed += other.timed;
        self.timed_ms += other.timed_ms;
        self.cpu += other.cpu;
    }
}

impl Mul<f64> for Cost {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self {
            samples: self.samples * factor,
            timed: self.timed * factor,
            timed_ms: self.timed_ms * factor,
            cpu: self.cpu * factor,
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
