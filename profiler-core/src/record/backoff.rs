//! Retries for a short time: a held lock is usually free within a microsecond.
//!
//! Used by recording threads where giving up at once would drop an entry unnecessarily. Invariant:
//! nothing here blocks. Both functions end after a fixed number of tries, so a lock that is never
//! released costs only time. That happens if a signal interrupted this thread while it held the
//! lock.

/// Tries without a system call: some tens of microseconds, in which a running holder finishes. The
/// holder may be making a chunk, and giving up would lose an entry.
const SPINS: u32 = if cfg!(loom) { 100 } else { 2000 };
/// Tries that let other threads run: the holder may need this processor.
const YIELDS: u32 = 100;

/// Spins. For a chunk switch.
pub(crate) fn spin<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    (0..SPINS).find_map(|_| {
        let found = attempt();
        if found.is_none() {
            std::hint::spin_loop();
        }
        found
    })
}

/// Spins, then yields. For steps that happen once per thread or group: every entry is lost until
/// such a step succeeds.
pub(crate) fn spin_then_yield<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    spin(&mut attempt).or_else(|| {
        (0..YIELDS).find_map(|_| {
            std::thread::yield_now();
            attempt()
        })
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_never_succeeds_is_given_up() {
        let mut tries = 0;
        assert_eq!(
            spin_then_yield(|| -> Option<()> {
                tries += 1;
                None
            }),
            None
        );
        assert_eq!(tries, SPINS + YIELDS);
    }

    #[test]
    fn an_attempt_that_succeeds_later_gives_its_result() {
        let mut tries = 0;
        let third = || {
            tries += 1;
            (tries == 3).then_some(tries)
        };
        assert_eq!(spin(third), Some(3));
    }
}
