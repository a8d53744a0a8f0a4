//! Watches the parent's memory, descriptors and threads, and the true bytes of the pools,
//! throughout the run.
//!
//! Rules. Memory: the median of the last quarter of all readings is at most 1.02 times the median
//! of the second quarter, plus 2 MiB. Descriptors and threads: the maximum of the last quarter is
//! at most 1.1 times the maximum of the second quarter, plus 16. True bytes: never above the limit.
//! A sweep over the pools is not atomic, so a sweep above the limit counts only if a second sweep,
//! directly after it, is above the limit, too.

use integration_tests::own::{Possessions, resident_bytes};
use profiler_parent::Session;

/// A reading of this process's resources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) resident: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

/// All readings.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    readings: Vec<Reading>,
    /// Highest sum of true bytes.
    pub(crate) peak: u64,
}

impl Watch {
    /// Reads this process's resources.
    pub(crate) fn read(&mut self) -> Reading {
        let Possessions {
            threads,
            descriptors,
            ..
        } = Possessions::count();
        let reading = Reading {
            resident: resident_bytes(),
            descriptors: descriptors as u64,
            threads: threads as u64,
        };
        self.readings.push(reading);
        reading
    }

    /// Returns the sum of the true bytes of all pools.
    pub(crate) fn sweep(&mut self, session: &Session, limit: u64) -> u64 {
        let sweep = || {
            session
                .processes()
                .iter()
                .map(|process| process.true_bytes)
                .sum::<u64>()
        };
        let mut held = sweep();
        if held > limit {
            held = held.min(sweep());
        }
        self.peak = self.peak.max(held);
        held
    }

    /// Describes each resource that grew.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let quarter = self.readings.len() / 4;
        let second = self.readings.get(quarter..2 * quarter).unwrap_or_default();
        let last = self
            .readings
            .get(self.readings.len() - quarter..)
            .unwrap_or_default();
        if quarter < 4 {
            return vec!["too short to say whether anything grows".to_owned()];
        }
        let memory = |readings: &[Reading]| {
            median(readings.iter().map(|reading| reading.resident).collect())
        };
        let before = memory(second);
        let after = memory(last);
        let mut complaints = Vec::new();
        if after as f64 > before as f64 * 1.02 + f64::from(2 << 20) {
            complaints.push(format!(
                "the parent's memory grew from {before} to {after} bytes"
            ));
        }
        let descriptors = |readings: &[Reading]| {
            readings
                .iter()
                .map(|reading| reading.descriptors)
                .max()
                .unwrap_or(0)
        };
        let threads = |readings: &[Reading]| {
            readings
                .iter()
                .map(|reading| reading.threads)
                .max()
                .unwrap_or(0)
        };
        let counts = [
            ("descriptors", descriptors(second), descriptors(last)),
            ("threads", threads(second), threads(last)),
        ];
        for (name, before, after) in counts {
            if after as f64 > before as f64 * 1.1 + 16.0 {
                complaints.push(format!("the parent's {name} grew from {before} to {after}"));
            }
        }
        complaints
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
