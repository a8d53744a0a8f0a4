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
        const SESSIONS: u64 = 20_000;
        let (kept, begun, done) = (Kept::new(), AtomicU64::new(0), AtomicU64::new(0));
        let wait_for = |word: &AtomicU64, session: u64| {
            let tries = (1_u32..).take_while(|_| word.load(Ordering::Acquire) != session);
            tries.filter(|tries| tries % 1000 == 0).for_each(|_| std::thread::yield_now());
        };
        let is_whole = |session: u64| {
            begun.store(session, Ordering::Release);
            // As long as the other one takes to see it, once in a while.
            (0..session % 500).for_each(|step| _ = std::hint::black_box(step));
            kept.add(session, 1);
            wait_for(&done, session);
            kept.0.load(Ordering::Relaxed) == pack(session, 2)
        };
        let lost = std::thread::scope(|scope| {
            scope.spawn(|| {
                for session in 1..=SESSIONS {
                    wait_for(&begun, session);
                    kept.add(session, 1);
                    done.store(session, Ordering::Release);
                }
            });
            (1..=SESSIONS).filter(|session| !is_whole(*session)).count()
        });
        assert_eq!(lost, 0);
    }
}
