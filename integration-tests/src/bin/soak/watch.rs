//! What is watched all along: the parent's memory, descriptors and threads, and the pools' true bytes.
//!
//! Rules. Memory: the median of the last quarter of all looks is at most 1.02 times that of the second
//! quarter, plus 2 MiB. Descriptors and threads: the most of the last quarter is at most 1.1 times that
//! of the second, plus 16. True bytes: never above the limit; a sweep over pools is not one instant, so
//! one that finds more is believed only if a second one, right behind it, does too.

use integration_tests::own::{Possessions, resident_bytes};
use profiler_parent::Session;

/// One look at this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) resident: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

/// All that was seen.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    looks: Vec<Look>,
    /// Highest sum of true bytes.
    pub(crate) peak: u64,
}

impl Watch {
    /// Looks at this process.
    pub(crate) fn look(&mut self) -> Look {
        let Possessions { threads, descriptors, .. } = Possessions::count();
        let look =
            Look { resident: resident_bytes(), descriptors: descriptors as u64, threads: threads as u64 };
        self.looks.push(look);
        look
    }

    /// Looks at the pools; what they hold now.
    pub(crate) fn sweep(&mut self, session: &Session, limit: u64) -> u64 {
        let sweep = || session.processes().iter().map(|process| process.true_bytes).sum::<u64>();
        let mut held = sweep();
        if held > limit {
            held = held.min(sweep());
        }
        self.peak = self.peak.max(held);
        held
    }

    /// What grew, in words.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let quarter = self.looks.len() / 4;
        let second = self.looks.get(quarter..2 * quarter).unwrap_or_default();
        let last = self.looks.get(self.looks.len() - quarter..).unwrap_or_default();
        if quarter < 4 {
            return vec!["too short to say whether anything grows".to_owned()];
        }
        let memory = |looks: &[Look]| median(looks.iter().map(|look| look.resident).collect());
        let (before, after) = (memory(second), memory(last));
        let mut complaints = Vec::new();
        if after as f64 > before as f64 * 1.02 + f64::from(2 << 20) {
            complaints.push(format!("the parent's memory grew from {before} to {after} bytes"));
        }
        let descriptors = |looks: &[Look]| looks.iter().map(|look| look.descriptors).max().unwrap_or(0);
        let threads = |looks: &[Look]| looks.iter().map(|look| look.threads).max().unwrap_or(0);
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
