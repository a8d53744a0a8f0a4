//! How many connections and processes the session's address may occupy. Linux.
//!
//! Used by the join thread, by the admission of processes and by the supervisor. Invariants: all of
//! them together use at most half of the descriptors that this process may have; a quarter may be
//! used by the pools of dead processes, and the rest is the host's. No more processes are watched
//! than may have joined and may be listed, whatever they do.

use profiler_sys::descriptor_limit;

/// The descriptors of a process that has joined: its pool, its socket, and the one that reports its
/// exit.
const JOINED: u64 = 3;
/// The descriptors of a connection that is kept: its socket, and the one of its process. In
/// addition, one socket waits to be closed.
const PENDING: u64 = 3;
/// The largest number of connections that are kept, and of refused processes that are listed.
const MAX: u64 = 128;
/// The smallest number of both.
const FEWEST: u64 = 8;

/// How many there may be of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(all(target_os = "linux", not(profiler_portable))),
    allow(dead_code)
)]
pub(in crate::supervisor) struct Limits {
    /// Connections that are kept while their processes are silent or wait for memory; and sockets
    /// that wait to be closed.
    pub(super) pending: usize,
    /// Running processes that are listed as refused. Each costs one descriptor.
    pub(in crate::supervisor) refused: usize,
    /// Running processes that have joined.
    pub(super) joined: usize,
}

impl Limits {
    /// The limits for the descriptors that this process may have now.
    pub(in crate::supervisor) fn now() -> Self {
        Self::new(descriptor_limit())
    }

    /// Processes that are watched, of all kinds.
    pub(super) const fn watched(&self) -> usize {
        self.joined.saturating_add(self.refused)
    }

    fn new(descriptors: u64) -> Self {
        let share = descriptors / 2;
        let each = (share / 16).clamp(FEWEST, MAX);
        let joined = share.saturating_sub(each * (PENDING + 1)) / JOINED;
        let most = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            pending: most(each),
            refused: most(each),
            joined: most(joined),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_descriptors_are_left_to_the_host() {
        for descriptors in [64, 256, 1024, 4096, 20_000, 1 << 20, u64::MAX] {
            let limits = Limits::new(descriptors);
            let waiting = limits.pending as u64 * PENDING + limits.refused as u64;
            let used = limits.joined as u64 * JOINED + waiting;
            assert!(used <= descriptors / 2, "{descriptors}: {limits:?}");
            assert!(used + JOINED > descriptors / 2, "{descriptors}: {limits:?}");
        }
    }

    #[test]
    fn a_usual_limit_has_room_for_a_crowd() {
        assert!(Limits::new(1024).joined >= 100);
        assert!(Limits::new(20_000).joined >= 1000);
    }
}
