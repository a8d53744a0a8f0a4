//! How much of each process is read in a pass, and in which order.
//!
//! Used by the reader's thread ([`crate::store`]). The entries that a pool holds at the first read
//! are read without a pause, the newest first, up to a bound for each process. A process that
//! records faster than it is read reaches its bound, and from then on takes a bounded part of a
//! pass. Pure. Invariants: in each round, every process is read once, so a process with many
//! entries does not delay the others; the first budgets are small, so the first answer soon has the
//! newest samples of all processes, and the time that is read grows evenly.

/// Bytes that are read of one process under the lock. A chunk is read as a whole, so a budget is
/// exceeded by up to one chunk.
const BUDGET: u64 = 1 << 20;
/// The same for the first [`FIRST_BUDGETS`] of a process. Of 200 processes, 12.5 MiB and some
/// chunks are read before the first pass ends.
const FIRST_BUDGET: u64 = 1 << 16;
/// The number of small budgets: 1 MiB, about the samples of 10 s of one busy thread.
const FIRST_BUDGETS: u32 = 16;
/// Budgets of a process that are read without a pause: enough for 4 GiB.
const CATCH_UP_BUDGETS: u32 = 4096;
/// Budgets of a process in one pass, once it has caught up or has reached its bound.
const LATER_BUDGETS: usize = 16;

/// Whether the entries that a process recorded before the first read are still being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CatchUp {
    /// Budgets that may still be read without a pause.
    left: u32,
}

impl CatchUp {
    /// A process of which nothing was read.
    pub(crate) const fn new() -> Self {
        Self {
            left: CATCH_UP_BUDGETS,
        }
    }

    /// Notes that one budget was read, after which entries remain or not.
    pub(crate) const fn note(&mut self, is_behind: bool) {
        self.left = if is_behind {
            self.left.saturating_sub(1)
        } else {
            0
        };
    }

    /// Whether the process has caught up or has reached its bound.
    pub(crate) const fn is_over(self) -> bool {
        self.left == 0
    }

    /// The bytes of the next budget.
    pub(crate) const fn bytes(self) -> u64 {
        if CATCH_UP_BUDGETS.saturating_sub(self.left) < FIRST_BUDGETS {
            FIRST_BUDGET
        } else {
            BUDGET
        }
    }

    /// The maximum number of budgets in the next pass. A pass that follows another without a pause
    /// is not regular; it reads only the processes that have not caught up.
    pub(crate) const fn budgets(self, is_regular: bool) -> usize {
        match (self.is_over(), is_regular) {
            (false, _) => 1,
            (true, true) => LATER_BUDGETS,
            (true, false) => 0,
        }
    }
}

/// Calls `read` for one process after the other, in rounds, up to the given number of times for
/// each. `read` returns whether entries of the process remain.
pub(crate) fn in_rounds<K>(mut turns: Vec<(K, usize)>, mut read: impl FnMut(&K) -> bool) {
    turns.retain(|(_, budgets)| *budgets > 0);
    while !turns.is_empty() {
        turns.retain_mut(|(process, budgets)| {
            *budgets = budgets.saturating_sub(1);
            read(process) && *budgets > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_many_entries_does_not_keep_others_waiting() {
        let mut left = [100, 1, 3];
        let mut order = Vec::new();
        in_rounds(vec![(0_usize, 16), (1, 16), (2, 16)], |process| {
            order.push(*process);
            left[*process] -= 1;
            left[*process] > 0
        });
        assert_eq!(order[..6], [0, 1, 2, 0, 2, 0]);
        let of = |wanted| order.iter().filter(|process| **process == wanted).count();
        assert_eq!([of(0), of(1), of(2)], [16, 1, 3]);
        in_rounds(vec![(0, 0)], |_| panic!("it has no turn"));
    }

    #[test]
    fn each_process_has_its_own_bound_on_what_is_read_without_a_pause() {
        let mut busy = CatchUp::new();
        let mut budgets = 0;
        while !busy.is_over() {
            assert_eq!((busy.budgets(true), busy.budgets(false)), (1, 1));
            busy.note(true);
            budgets += 1;
        }
        assert_eq!(budgets, CATCH_UP_BUDGETS);
        let later = (busy.budgets(true), busy.budgets(false));
        assert_eq!(later, (LATER_BUDGETS, 0));
        let late = CatchUp::new();
        assert!(!late.is_over(), "a process that starts later has no turn");
    }

    #[test]
    fn little_of_each_process_is_read_in_the_first_rounds() {
        let mut process = CatchUp::new();
        for _ in 0..FIRST_BUDGETS {
            assert_eq!(process.bytes(), FIRST_BUDGET);
            process.note(true);
        }
        assert_eq!(process.bytes(), BUDGET);
        let mut small = CatchUp::new();
        small.note(false);
        assert_eq!(small.bytes(), BUDGET, "it has been read");
    }

    #[test]
    fn a_process_that_has_caught_up_is_read_in_regular_passes_only() {
        let mut process = CatchUp::new();
        process.note(true);
        process.note(false);
        process.note(true);
        assert_eq!(process.budgets(false), 0);
    }
}
