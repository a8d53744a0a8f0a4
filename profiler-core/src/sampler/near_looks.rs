//! Looks at threads that last ran on the processor of the looking thread.
//!
//! Used by `looking` and `observed_look`. The looking thread is woken by a timer. The interrupt of
//! this timer ends all waits whose timers are due on the same processor, and the woken threads have
//! to wait for this processor, or find another one. If a thread last ran on that processor, the
//! look often comes just after such a wait has ended: it finds these waits too rarely, and what
//! follows them too often. Measured with pauses of 0.3 ms: a sleep with 31 % of the time was found
//! by 14 to 23 % of such looks, and by 28 to 30 % of the others.
//!
//! Such a look is ignored. After three ignored looks in a row, as on a machine with one processor,
//! looks count again. Looks at a thread that has run fewer than [`MIN_RUNS`] times always count:
//! its waits are long, so the error is small.

/// A look is ignored only if the thread has run at least this often since the look before.
const MIN_RUNS: u64 = 4;
/// The most looks in a row that are ignored.
const MAX_IGNORED: u8 = 3;

/// The successive looks at a thread that found it on the processor of the looking thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NearLooks {
    number: u8,
    /// Whether an ignored look found that the thread had run. The next look takes it into account.
    has_run: bool,
    /// The number of times that the thread had run at the last look.
    runs: u64,
    /// Whether it has run at least [`MIN_RUNS`] times between the last two looks.
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
        let is_first = self.runs == 0;
        self.is_often = !is_first && runs.saturating_sub(self.runs) >= MIN_RUNS;
        self.runs = runs;
    }

    /// Whether the present look is to be ignored. `own` returns the processor of the looking
    /// thread, and `last` that of a thread that has run and waits now.
    pub(super) fn ignores(
        &mut self,
        own: impl FnOnce() -> Option<u32>,
        last: impl FnOnce() -> Option<u32>,
    ) -> bool {
        if !self.is_often {
            return false;
        }
        if last().is_none_or(|last| own() != Some(last)) {
            self.number = 0;
            return false;
        }
        self.number = self.number.saturating_add(1);
        self.has_run = self.number <= MAX_IGNORED;
        self.has_run
    }

    /// Whether the last look was ignored.
    pub(super) const fn is_ignored(&self) -> bool {
        self.has_run
    }

    /// Whether the thread has run before the last look, and that was ignored. Resets this.
    pub(super) const fn take_run(&mut self) -> bool {
        std::mem::replace(&mut self.has_run, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn often() -> NearLooks {
        let mut looks = NearLooks::NONE;
        looks.note_runs(1);
        looks.note_runs(1 + MIN_RUNS);
        looks
    }

    /// A look from processor 1 at a thread that ran last on this one.
    fn look(looks: &mut NearLooks, last: Option<u32>) -> bool {
        looks.ignores(|| Some(1), || last)
    }

    #[test]
    fn looks_from_the_threads_own_processor_are_ignored_unless_there_are_no_others() {
        let mut looks = often();
        assert!(!look(&mut looks, Some(0)) && !look(&mut looks, None));
        for _ in 0..2 {
            let ignored: Vec<bool> = (0..6).map(|_| look(&mut looks, Some(1))).collect();
            assert_eq!(ignored, [true, true, true, false, false, false]);
            assert!(!looks.take_run(), "the last look counted");
            assert!(!look(&mut looks, Some(0)));
            assert!(look(&mut looks, Some(1)) && looks.take_run() && !looks.take_run());
            assert!(!look(&mut looks, Some(0)));
        }
    }

    #[test]
    fn the_first_look_counts() {
        let mut looks = NearLooks::NONE;
        looks.note_runs(MIN_RUNS * 100);
        assert!(!look(&mut looks, Some(1)));
    }

    #[test]
    fn all_looks_at_a_thread_that_seldom_runs_count_and_do_not_begin_a_new_row() {
        let mut looks = often();
        assert_eq!((0..9).filter(|_| look(&mut looks, Some(1))).count(), 3);
        looks.note_runs(MIN_RUNS * 2);
        assert!(!looks.ignores(|| panic!("read"), || panic!("read")));
        looks.note_runs(MIN_RUNS * 3);
        assert!(!look(&mut looks, Some(1)), "the row goes on");
    }
}
