//! Looks at threads that last ran on the processor of the looking thread.
//!
//! Used by `looking` and `observed_look`. The looking thread is woken by a timer. The interrupt of
//! this timer ends all waits whose timers are due on the same processor, and the woken threads have
//! to wait for this processor, or find another one. If a thread's last processor is that of the
//! looking thread, the look therefore finds too few waits that a timer ends, and too many of those
//! that follow them. With pauses of 0.3 ms, 14 to 25 % of such looks found a sleep of 31 % of the
//! time, and 28 to 30 % of the other looks did.
//!
//! Such a look does not count. Another one soon finds the thread on another processor. If
//! successive looks do not, as on a machine with one processor, they count. The error of long waits
//! is small, so all looks at a thread that seldom runs count ([`MIN_RUNS`]).

/// The least number of times that a thread has run between two looks, for the later one not to
/// count.
const MIN_RUNS: u64 = 4;
/// The number of successive looks that do not count.
const MAX_SKIPPED: u8 = 3;

/// The successive looks at a thread that found it on the processor of the looking thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NearLooks {
    number: u8,
    /// Whether the thread had run at the last look, which did not count.
    has_run: bool,
    /// The number of times that the thread had run at the last look.
    runs: u64,
    /// Whether it has run often since the look before.
    is_often: bool,
}

impl NearLooks {
    pub(super) const NONE: Self = Self {
        number: 0,
        has_run: false,
        runs: 0,
        is_often: false,
    };

    /// Notes how often the thread has run at the present look.
    pub(super) const fn note_runs(&mut self, runs: u64) {
        self.is_often = runs.saturating_sub(self.runs) >= MIN_RUNS;
        self.runs = runs;
    }

    /// Notes a look from the processor `own` at a thread that has run on the processor `last`.
    /// Returns whether the look does not count.
    pub(super) fn skips(&mut self, own: u32, last: impl FnOnce() -> Option<u32>) -> bool {
        if !self.is_often || last() != Some(own) {
            self.number = 0;
            return false;
        }
        self.number = self.number.saturating_add(1);
        self.has_run = self.number <= MAX_SKIPPED;
        self.has_run
    }

    /// Whether the thread has run before the last look, and that did not count. Resets this.
    pub(super) const fn take_run(&mut self) -> bool {
        std::mem::replace(&mut self.has_run, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn often() -> NearLooks {
        let mut looks = NearLooks::NONE;
        looks.note_runs(MIN_RUNS);
        looks
    }

    #[test]
    fn looks_from_the_threads_own_processor_do_not_count_unless_there_are_no_others() {
        let mut looks = often();
        assert!(!looks.skips(1, || Some(0)));
        assert!(!looks.skips(1, || None), "unknown");
        for _ in 0..2 {
            let skipped: Vec<bool> = (0..6).map(|_| looks.skips(1, || Some(1))).collect();
            assert_eq!(skipped, [true, true, true, false, false, false]);
            assert!(!looks.take_run(), "the last look counted");
            assert!(!looks.skips(0, || Some(1)));
            assert!(looks.skips(1, || Some(1)) && looks.take_run() && !looks.take_run());
            assert!(!looks.skips(0, || Some(1)));
        }
    }

    #[test]
    fn all_looks_at_a_thread_that_seldom_runs_count() {
        let mut looks = often();
        looks.note_runs(MIN_RUNS * 2 - 1);
        assert!(!looks.skips(1, || panic!("read")));
        looks.note_runs(MIN_RUNS * 3);
        assert!(looks.skips(1, || Some(1)));
    }
}
