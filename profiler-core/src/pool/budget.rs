//! The allowance: the bytes that this process may hold and the bytes that it holds, in one atomic
//! word.
//!
//! Every caller takes the bytes of a new page from here before it touches the page. Invariants:
//! `used <= allowance` after every successful `take`, also while the allowance is being lowered
//! (both numbers share one word, so neither can change unnoticed); bytes are returned only after
//! the system has the pages. Units inside are pages; 32 bits of pages are 16 TiB.

use super::layout::Extent;
use super::mapping::Words;
use crate::ids::ByteLimit;
use crate::sync::{AtomicU64, Ordering};

/// Page accounting of one process's pool.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Pages used (low half), pages allowed (high half).
    word: AtomicU64,
    /// Bytes requested since the last report that were not available.
    wanted: AtomicU64,
    page: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pages {
    used: u64,
    allowed: u64,
}

impl Pages {
    const MAX: u64 = u32::MAX as u64;

    const fn unpack(word: u64) -> Self {
        Self {
            used: word & Self::MAX,
            allowed: word >> 32,
        }
    }

    const fn pack(self) -> u64 {
        (self.allowed << 32) | self.used
    }
}

impl Budget {
    /// A budget with `used` bytes held already (the pages that the maker touched).
    pub(crate) fn new(allowance: ByteLimit, used: u64, page: u64) -> Self {
        let allowed = (allowance.get() / page).min(Pages::MAX);
        let used = used.div_ceil(page).min(Pages::MAX);
        Self {
            word: AtomicU64::new(Pages { used, allowed }.pack()),
            wanted: AtomicU64::new(0),
            page,
        }
    }

    /// Takes `bytes` (whole pages) if at least `reserve` bytes remain; otherwise returns false.
    /// Lock-free.
    pub(crate) fn take(&self, bytes: u64, reserve: u64) -> bool {
        let pages = bytes.div_ceil(self.page);
        let reserve = reserve / self.page;
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let now = Pages::unpack(word);
            let used = now.used.saturating_add(pages);
            if used.saturating_add(reserve) > now.allowed {
                return false;
            }
            let next = Pages { used, ..now }.pack();
            match self
                .word
                .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
    }

    /// Returns bytes whose pages have gone back to the system.
    pub(crate) fn give_back(&self, bytes: u64) {
        let pages = bytes / self.page;
        self.change(|now| Pages {
            used: now.used.saturating_sub(pages),
            ..now
        });
    }

    /// Sets the allowance; returns whether that changed it. The new value may be below the bytes in
    /// use; then the manager destroys chunks.
    pub(crate) fn set_allowance(&self, allowance: ByteLimit) -> bool {
        let allowed = (allowance.get() / self.page).min(Pages::MAX);
        self.change(|now| Pages { allowed, ..now }).allowed != allowed
    }

    /// Changes both numbers at once and returns the previous ones.
    fn change(&self, change: impl Fn(Pages) -> Pages) -> Pages {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let next = change(Pages::unpack(word)).pack();
            match self
                .word
                .compare_exchange_weak(word, next, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(before) => return Pages::unpack(before),
                Err(seen) => word = seen,
            }
        }
    }

    /// Notes that `bytes` more were requested.
    pub(crate) fn want(&self, bytes: u64) {
        self.wanted.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes the bytes requested since the last call.
    pub(crate) fn take_wanted(&self) -> u64 {
        self.wanted.swap(0, Ordering::Relaxed)
    }

    /// Bytes held and bytes allowed, at one instant.
    pub(crate) fn used_and_allowed(&self) -> (u64, u64) {
        let now = Pages::unpack(self.word.load(Ordering::Acquire));
        (
            now.used.saturating_mul(self.page),
            now.allowed.saturating_mul(self.page),
        )
    }
}

/// The part of a growing table that is charged. Lock-free.
#[derive(Debug)]
pub(crate) struct ChargedPages {
    /// End of the charged part, relative to the table.
    end: AtomicU64,
    page: u64,
}

impl ChargedPages {
    pub(crate) fn new(page: u64) -> Self {
        Self {
            end: AtomicU64::new(0),
            page,
        }
    }

    /// Charges pages until `end` of `table` is covered. False if the system has no room for them,
    /// or if the budget does not allow it; then the request is noted. Works page by page: if two
    /// threads race, both secure the same page, and one of them charges it.
    pub(crate) fn cover(&self, map: &impl Words, budget: &Budget, table: Extent, end: u64) -> bool {
        let mut charged = self.end.load(Ordering::Acquire);
        while charged < end {
            if !budget.take(self.page, 0) {
                budget.want((end - charged).div_ceil(self.page) * self.page);
                return false;
            }
            let page = Extent {
                offset: table.offset.saturating_add(charged),
                len: self.page,
            };
            if !map.secure(page) {
                budget.give_back(self.page);
                return false;
            }
            let next = charged.saturating_add(self.page);
            match self
                .end
                .compare_exchange(charged, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => charged = next,
                Err(seen) => {
                    budget.give_back(self.page);
                    charged = seen;
                }
            }
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_allowed() {
        let budget = Budget::new(ByteLimit::new(3 * 4096 + 100), 4096, 4096);
        assert!(budget.take(4096, 0));
        assert!(!budget.take(4096, 4096));
        assert!(budget.take(100, 0));
        assert!(!budget.take(1, 0));
        budget.give_back(4096);
        assert!(budget.take(4096, 0));
        assert_eq!(budget.used_and_allowed(), (3 * 4096, 3 * 4096));
    }

    #[test]
    fn a_lowered_allowance_stops_further_taking_at_once() {
        let budget = Budget::new(ByteLimit::new(8 * 4096), 4 * 4096, 4096);
        budget.set_allowance(ByteLimit::new(2 * 4096));
        assert!(!budget.take(4096, 0));
        assert_eq!(budget.used_and_allowed(), (4 * 4096, 2 * 4096));
    }

    #[test]
    fn unmet_requests_add_up_until_they_are_taken() {
        let budget = Budget::new(ByteLimit::new(0), 0, 4096);
        budget.want(10);
        budget.want(5);
        assert_eq!((budget.take_wanted(), budget.take_wanted()), (15, 0));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn loom_lowering_races_with_taking_and_the_bound_holds() {
        loom::model(|| {
            let budget = Arc::new(Budget::new(ByteLimit::new(2 * 4096), 0, 4096));
            let taker = {
                let budget = Arc::clone(&budget);
                thread::spawn(move || {
                    u64::from(budget.take(4096, 0)) + u64::from(budget.take(4096, 0))
                })
            };
            budget.set_allowance(ByteLimit::new(4096));
            let (used_when_lowered, _) = budget.used_and_allowed();
            let taken = taker.join().unwrap();
            let (used, allowed) = budget.used_and_allowed();
            assert_eq!(allowed, 4096);
            assert_eq!(used, taken * 4096);
            // Once a lowering observed usage below the new bound, usage never exceeds it again.
            assert!(used <= allowed || used_when_lowered > allowed);
        });
    }

    #[test]
    fn loom_takes_and_returns_stay_within_an_allowance_that_is_lowered_and_raised() {
        loom::model(|| {
            let budget = Arc::new(Budget::new(ByteLimit::new(2 * 4096), 4096, 4096));
            let take = || {
                let budget = Arc::clone(&budget);
                thread::spawn(move || {
                    budget.take(4096, 0) && budget.used_and_allowed().0 <= 3 * 4096
                })
            };
            let takers = [take(), take()];
            budget.set_allowance(ByteLimit::new(4096));
            let (used, _) = budget.used_and_allowed();
            budget.give_back(4096); // the manager must destroy chunks
            budget.set_allowance(ByteLimit::new(3 * 4096));
            let taken = takers
                .into_iter()
                .map(|taker| u64::from(taker.join().unwrap()))
                .sum::<u64>();
            assert!(used <= 2 * 4096, "more than was ever allowed at that time");
            assert_eq!(budget.used_and_allowed(), (taken * 4096, 3 * 4096));
        });
    }
}
