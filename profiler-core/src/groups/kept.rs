//! Ticks that could not be placed yet, with the session that they belong to.
//!
//! Held by groups, of their cells, and by handles, of the registry. Any thread adds and takes, without a lock. Both numbers are one
//! word, so that no thread wipes or adds to what another has just kept in a newer session:
//!
//! ```text
//! bits 40…63  session, modulo 2^24      bits 0…39  ticks; they stop growing at the most
//! ```
//!
//! Orderings: adding and taking are both acquire and release. So whoever adds after a taker has looked sees all that the taker
//! did before: `Group::miss` relies on it.

use crate::sync::fixed::{AtomicU64, Ordering};

const TICK_BITS: u32 = 40;
const MOST: u64 = (1 << TICK_BITS) - 1;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Kept(AtomicU64);

impl Kept {
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Keeps more; what is there of another session is forgotten.
    pub(super) fn add(&self, session: u64, ticks: u64) {
        let more = |word| Some(pack(session, ticks_in(word, session).saturating_add(ticks)));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
    }

    /// Whether there is nothing to take. One relaxed load.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes what was kept in this session.
    pub(super) fn take(&self, session: u64) -> u64 {
        ticks_in(self.0.swap(0, Ordering::AcqRel), session)
    }

    #[cfg(test)]
    pub(super) fn look(&self) -> u64 {
        self.0.load(Ordering::Relaxed) & MOST
    }
}

const fn pack(session: u64, ticks: u64) -> u64 {
    (session << TICK_BITS) | if ticks < MOST { ticks } else { MOST }
}

const fn ticks_in(word: u64, session: u64) -> u64 {
    if word >> TICK_BITS == pack(session, 0) >> TICK_BITS { word & MOST } else { 0 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn what_is_kept_belongs_to_its_session() {
        let kept = Kept::new();
        kept.add(7, 3);
        kept.add(7, 4);
        assert_eq!((kept.take(7), kept.take(7)), (7, 0));
        kept.add(7, 3);
        kept.add(8, 1);
        assert_eq!(kept.take(8), 1, "the older ones are gone");
        kept.add(8, 1);
        assert_eq!(kept.take(9), 0);
        kept.add(9, u64::MAX);
        kept.add(9, u64::MAX);
        assert_eq!((kept.take(9), kept.is_empty()), (MOST, true), "and never another session's number");
    }

    #[test]
    fn the_first_ticks_of_a_session_are_not_wiped_by_another_threads() {
        const THREADS: u64 = 3;
        let (kept, barrier) = (Kept::new(), Barrier::new(THREADS as usize));
        let add_in_each = |check: bool| {
            for session in 1..2000 {
                barrier.wait();
                kept.add(session, 1);
                barrier.wait();
                if check {
                    assert_eq!(kept.0.load(Ordering::Relaxed), pack(session, THREADS));
                }
            }
        };
        std::thread::scope(|scope| {
            (1..THREADS).for_each(|_| _ = scope.spawn(|| add_in_each(false)));
            add_in_each(true);
        });
    }
}
