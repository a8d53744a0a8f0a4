//! What is missing in an answer, and why.
//!
//! Used while an answer is made. Invariant: every loss of the reader is in one of these numbers.

use serde::Serialize;

use crate::store::Samples;
use crate::weights::Weight;

/// What is missing in the answer, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Missing {
    /// Entries that were evicted before their pools were first read.
    evicted_before: u64,
    /// Entries that were evicted between two reads.
    evicted_since: u64,
    /// Processes whose pools could not be read.
    unreadable: u64,
    /// Processes that record faster than they are read.
    behind: u64,
    /// Time for which there was no room.
    left_out_ns: u64,
    /// Frames for which there was no room.
    frames: u64,
}

impl Missing {
    /// What is missing in an answer that is made from the sums of all samples, or from the latest
    /// samples.
    pub(super) fn of(samples: &Samples, from_latest: bool) -> Self {
        let mut missing = Self {
            frames: samples.frames.lost(),
            ..Self::default()
        };
        let mut left_out = if from_latest {
            Weight::default()
        } else {
            samples.forgotten
        };
        for process in samples.processes() {
            let progress = &process.progress;
            let sums = [
                (&mut missing.evicted_before, progress.evicted_before),
                (&mut missing.evicted_since, progress.missed),
                (&mut missing.unreadable, u64::from(process.is_unreadable)),
                (&mut missing.behind, u64::from(process.is_too_fast())),
                (&mut missing.frames, process.tree.lost()),
            ];
            for (sum, number) in sums {
                *sum = sum.saturating_add(number);
            }
            left_out = left_out.plus(if from_latest {
                process.recent.left_out()
            } else {
                process.weights.left_out()
            });
        }
        missing.left_out_ns = left_out.on_ns.saturating_add(left_out.off_ns);
        missing
    }
}
