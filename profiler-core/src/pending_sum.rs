//! A sum of amounts whose place does not exist yet, with the session that the sum belongs to.
//!
//! Held by counters and groups for their cells, and by handles of groups for the registry. Any
//! thread adds and takes, without a lock. Sum and session share one word, so a thread never wipes
//! or adds to an amount that another has kept in a newer session, even if the thread was suspended
//! since an older session:
//!
//! ```text
//! bits 48…63  session, modulo 2^16
//! bits 0…47   sum, signed; it saturates at its limits, which exceed all memory
//! ```
//!
//! Orderings: adding and taking both write, and both are acquire and release. So a thread that adds
//! after a taker has taken sees everything that the taker did before. The maker of a place
//! publishes it and then takes; an adder adds and then checks whether there is a place. One of the
//! two finds the amount.

#[cfg(loom)]
use crate::sync::AtomicU64;
use crate::sync::fixed::{self, Ordering};

const SUM_BITS: u32 = 48;
const MAX: i64 = (1 << (SUM_BITS - 1)) - 1;
/// A word counts as newer if its session began at most this many sessions later. Words of other
/// sessions count as older and are discarded.
const MAX_LATE: u64 = 256;

/// See the [module](self).
pub(crate) type PendingSum = PendingSumIn<fixed::AtomicU64>;

/// A pending sum in any word type: models have one of their own.
#[derive(Debug)]
pub(crate) struct PendingSumIn<W>(W);

/// The operations that the word must have.
pub(crate) trait Word {
    fn read(&self, order: Ordering) -> u64;
    fn update(&self, next: impl Fn(u64) -> u64, set: Ordering, fetch: Ordering) -> u64;
}

macro_rules! word {
    ($type:ty) => {
        impl Word for $type {
            #[inline(always)]
            fn read(&self, order: Ordering) -> u64 {
                self.load(order)
            }

            fn update(&self, next: impl Fn(u64) -> u64, set: Ordering, fetch: Ordering) -> u64 {
                self.fetch_update(set, fetch, |word| Some(next(word)))
                    .unwrap_or_else(|word| word)
            }
        }
    };
}

word!(fixed::AtomicU64);
#[cfg(loom)]
word!(AtomicU64);

impl PendingSum {
    pub(crate) const fn new() -> Self {
        Self(fixed::AtomicU64::new(0))
    }
}

impl<W: Word> PendingSumIn<W> {
    /// Adds an amount. A stored sum of an older session is discarded first; if the stored sum is of
    /// a newer session, the amount is discarded.
    pub(crate) fn add(&self, session: u64, more: i64) {
        self.change(|word| {
            let sum = sum_in(word, session).saturating_add(more);
            if is_newer(word, session) {
                word
            } else {
                pack(session, sum)
            }
        });
    }

    /// Whether the sum is empty. One relaxed load.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.read(Ordering::Relaxed) == 0
    }

    /// Takes the amount kept in this session.
    pub(crate) fn take(&self, session: u64) -> i64 {
        sum_in(
            self.change(|word| if is_newer(word, session) { word } else { 0 }),
            session,
        )
    }

    /// Always writes, even an unchanged value; returns the previous one.
    fn change(&self, next: impl Fn(u64) -> u64) -> u64 {
        self.0.update(next, Ordering::AcqRel, Ordering::Acquire)
    }

    #[cfg(test)]
    pub(crate) fn peek(&self) -> i64 {
        let word = self.0.read(Ordering::Relaxed);
        sum_in(word, word >> SUM_BITS)
    }
}

const fn pack(session: u64, sum: i64) -> u64 {
    let sum = if sum > MAX {
        MAX
    } else if sum < -MAX {
        -MAX
    } else {
        sum
    };
    (session << SUM_BITS) | (sum.cast_unsigned() & ((1 << SUM_BITS) - 1))
}

const fn sum_in(word: u64, session: u64) -> i64 {
    let is_same = word >> SUM_BITS == pack(session, 0) >> SUM_BITS;
    // The shift up and down extends the sign.
    if is_same {
        (word << (u64::BITS - SUM_BITS)).cast_signed() >> (u64::BITS - SUM_BITS)
    } else {
        0
    }
}

/// Whether the word is of a newer session than this one, as far as known modulo 2^16.
const fn is_newer(word: u64, session: u64) -> bool {
    let later = (word >> SUM_BITS).wrapping_sub(session) & 0xffff;
    word != 0 && later >= 1 && later <= MAX_LATE
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::fixed::AtomicU64;

    #[test]
    fn a_kept_amount_belongs_to_its_session() {
        let kept = PendingSum::new();
        kept.add(7, 3);
        kept.add(7, -7);
        assert_eq!((kept.peek(), kept.take(7), kept.take(7)), (-4, -4, 0));
        kept.add(7, 3);
        kept.add(8, 1);
        assert_eq!(
            kept.take(8),
            1,
            "amounts of the older session are discarded"
        );
        kept.add(8, 1);
        assert_eq!(kept.take(9), 0);
        for most in [MAX, -MAX] {
            kept.add(9, most.saturating_mul(1 << 16));
            kept.add(9, most);
            assert_eq!(
                (kept.take(9), kept.is_empty()),
                (most, true),
                "a saturated sum does not change the session's number"
            );
        }
        kept.add(65_535, 2);
        assert_eq!(kept.take(65_535), 2, "an empty word belongs to no session");
        kept.add(65_535, 2);
        kept.add(65_536, 3);
        assert_eq!(kept.take(65_536), 3, "the session's number wraps around");
    }

    #[test]
    fn a_thread_of_an_older_session_does_not_change_the_newer_sum() {
        let kept = PendingSum::new();
        kept.add(8, 5);
        kept.add(7, 1);
        assert_eq!((kept.take(7), kept.peek()), (0, 5));
        kept.add(8, 1);
        assert_eq!(kept.take(8), 6);
    }

    #[test]
    fn concurrent_first_amounts_of_a_session_are_both_kept() {
        const SESSIONS: u64 = 20_000;
        let kept = PendingSum::new();
        let begun = AtomicU64::new(0);
        let done = AtomicU64::new(0);
        let wait_for = |word: &AtomicU64, session: u64| {
            let tries = (1_u32..).take_while(|_| word.load(Ordering::Acquire) != session);
            tries
                .filter(|tries| tries % 1000 == 0)
                .for_each(|_| std::thread::yield_now());
        };
        let is_whole = |session: u64| {
            begun.store(session, Ordering::Release);
            // The delay varies which of the two threads adds first.
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

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    const SESSION: u64 = 7;

    /// A place that is made once, and the sum that waits for it.
    struct ModelledSum {
        kept: PendingSumIn<AtomicU64>,
        has_place: AtomicU64,
        placed: AtomicU64,
    }

    impl ModelledSum {
        fn new() -> Arc<Self> {
            let word = || AtomicU64::new(0);
            Arc::new(Self {
                kept: PendingSumIn(word()),
                has_place: word(),
                placed: word(),
            })
        }

        fn put(&self) {
            let taken = self.kept.take(SESSION).unsigned_abs();
            self.placed.fetch_add(taken, Ordering::Relaxed);
        }

        /// As in counters and handles of groups: keeps, then checks whether there is a place.
        fn miss(&self) {
            self.kept.add(SESSION, 1);
            if self.has_place.load(Ordering::Relaxed) != 0 {
                self.put();
            }
        }

        /// Makes the place, then takes.
        fn place(&self) {
            self.has_place.store(1, Ordering::Relaxed);
            self.put();
        }
    }

    #[test]
    fn loom_amounts_kept_while_the_place_is_made_are_placed_once() {
        loom::model(|| {
            let shared = ModelledSum::new();
            let keepers = [(); 2].map(|()| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.miss())
            });
            shared.place();
            keepers
                .into_iter()
                .for_each(|keeper| keeper.join().unwrap());
            assert_eq!(
                (
                    shared.placed.load(Ordering::Relaxed),
                    shared.kept.take(SESSION)
                ),
                (2, 0)
            );
        });
    }

    #[test]
    fn loom_a_thread_of_an_older_session_does_not_change_the_newer_sum() {
        loom::model(|| {
            let shared = ModelledSum::new();
            let late = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.kept.add(SESSION - 1, 5);
                    shared.kept.take(SESSION - 1)
                })
            };
            shared.kept.add(SESSION, 2);
            assert!(
                matches!(late.join().unwrap(), 0 | 5),
                "the newer session's amount was taken"
            );
            assert_eq!(shared.kept.take(SESSION), 2);
        });
    }
}
