//! How many connections and processes the session's address may occupy. Linux.
//!
//! Used by the join thread and by the admission of processes. Invariant: all of them together use
//! at most half of the descriptors that this process may have; the rest is the host's.

use crate::sys::descriptor_limit;

/// The descriptors of a process that has joined: its pool, its socket, and the one that reports its
/// exit.
const JOINED: u64 = 3;
/// The descriptors of a connection that is kept: its socket, and the one of its process.
const PENDING: u64 = 2;
/// The largest number of connections that are kept, and of refused processes that are listed.
const MOST: u64 = 128;
/// The smallest number of both.
const FEWEST: u64 = 8;

/// How many there may be of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Connections that are kept while their processes are silent or wait for memory.
    pub(super) pending: usize,
    /// Running processes that are listed as refused. Each costs one descriptor.
    pub(super) refused: usize,
    /// Running processes that have joined.
    pub(super) joined: u64,
}

impl Limits {
    /// The limits for the descriptors that this process may have now.
    pub(super) fn now() -> Self {
        Self::of(descriptor_limit())
    }

    fn of(descriptors: u64) -> Self {
        let share = descriptors / 2;
        let each = (share / 16).clamp(FEWEST, MOST);
        let waiting = usize::try_from(each).unwrap_or(usize::MAX);
        Self {
            pending: waiting,
            refused: waiting,
            joined: share.saturating_sub(each * (PENDING + 1)) / JOINED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_descriptors_are_left_to_the_host() {
        for descriptors in [64, 256, 1024, 4096, 20_000, 1 << 20, u64::MAX] {
            let limits = Limits::of(descriptors);
            let waiting = limits.pending as u64 * PENDING + limits.refused as u64;
            let used = limits.joined * JOINED + waiting;
            assert!(used <= descriptors / 2, "{descriptors}: {limits:?}");
            assert!(used + JOINED > descriptors / 2, "{descriptors}: {limits:?}");
        }
    }

    #[test]
    fn a_usual_limit_has_room_for_a_crowd() {
        assert!(Limits::of(1024).joined >= 100);
        assert!(Limits::of(20_000).joined >= 1000);
    }
}
