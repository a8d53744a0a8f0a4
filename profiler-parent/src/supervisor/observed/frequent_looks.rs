//! The programs whose threads run and wait in turn, at which the reader looks between its passes.
//!
//! Used by the reader. The passes alone have too few looks to estimate the shares of short waits
//! (see `alternation` in the core's sampler). All looks between the passes together use at most 2 %
//! of a processor.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use profiler_core::ids::PoolId;
use profiler_core::internal::observed::ObservedThreads;

use crate::sys::now;

/// The last round of looks has a weight of 1 / `COST_LOOKS` in the average cost.
const COST_LOOKS: u32 = 16;

/// The programs to look at between the passes, and the time of the next looks.
#[derive(Debug)]
pub(super) struct FrequentLooks {
    programs: BTreeSet<PoolId>,
    next: Instant,
    /// The average processor time of one round of looks at all these programs.
    cost: Duration,
}

impl FrequentLooks {
    pub(super) fn new() -> Self {
        Self {
            programs: BTreeSet::new(),
            next: now(),
            cost: Duration::ZERO,
        }
    }

    /// Notes whether the threads of a program run and wait in turn.
    pub(super) fn set(&mut self, key: PoolId, is_needed: bool) {
        if is_needed {
            self.programs.insert(key);
        } else {
            self.programs.remove(&key);
        }
    }

    /// Forgets all programs. The looks of the passes find again those that need it.
    pub(super) fn clear(&mut self) {
        self.programs.clear();
    }

    /// The time at which looks are due; `None` if no program needs them.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.programs.is_empty()).then_some(self.next)
    }

    /// The programs to look at, if looks are due.
    pub(super) fn take_due(&self) -> Vec<PoolId> {
        if self.next <= now() {
            self.programs.iter().copied().collect()
        } else {
            Vec::new()
        }
    }

    /// Sets the time of the next looks, after a round of looks that took this processor time.
    /// `None` after a pass, or while sampling is paused.
    pub(super) fn have_looked(&mut self, cost: Option<Duration>) {
        if let Some(cost) = cost {
            self.cost = (self.cost * (COST_LOOKS - 1) + cost) / COST_LOOKS;
        }
        // The jitter prevents looks from synchronizing with periodic work of a program.
        let part = 0.5 + fastrand::f64();
        self.next = now() + ObservedThreads::frequent_pause(self.cost).mul_f64(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_due_only_while_a_program_needs_them() {
        let key = PoolId::new(7);
        let mut looks = FrequentLooks::new();
        assert_eq!(looks.deadline(), None);
        looks.set(key, true);
        assert!(looks.deadline().is_some());
        assert_eq!(looks.take_due(), [key]);
        looks.have_looked(Some(Duration::from_secs(1)));
        assert!(looks.take_due().is_empty(), "an expensive look");
        looks.clear();
        assert_eq!(looks.deadline(), None);
        looks.set(key, true);
        looks.set(key, false);
        assert_eq!(looks.deadline(), None);
    }
}
