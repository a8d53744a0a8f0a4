//! Divides a limited resource of a profile among its processes, so that no process can use up the
//! shares of others.
//!
//! Used by the tables that are filled process by process. A minimum is reserved for each process.
//! Of the amount that is neither used nor reserved, a process may take half. The root process,
//! which comes first, and the last process may take all of it. Invariant: each process can take at
//! least [`Quota::promised`], independently of the processes before it.

/// The division of one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    most: usize,
    promised: usize,
    /// Number of processes that have not begun.
    waiting: usize,
    limit: usize,
}

/// Upper bound of the reserved minimum: a sixteenth of the resource, because one of a few processes
/// may need most of it.
const LARGEST_PROMISE: usize = 16;

impl Quota {
    /// Divides the amount between `used` and `most` among this number of processes. Before the
    /// first process begins, the limit is `most`.
    pub(super) fn new(used: usize, most: usize, processes: usize) -> Self {
        let all = most.saturating_sub(used);
        let promised = (all / processes.max(1) / 2).min(all / LARGEST_PROMISE);
        Self {
            most,
            promised,
            waiting: processes,
            limit: most,
        }
    }

    /// Begins the next process. `used` is the amount taken so far.
    pub(super) fn begin(&mut self, used: usize, is_root: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        let free = self.most.saturating_sub(used);
        let unpromised = free.saturating_sub(self.promised.saturating_mul(self.waiting));
        let share = if is_root || self.waiting == 0 {
            unpromised
        } else {
            unpromised / 2
        };
        self.limit = used.saturating_add(share.max(self.promised).min(free));
    }

    /// Sets the limit to zero: nothing more fits.
    pub(super) fn close(&mut self) {
        self.limit = 0;
    }

    /// The limit on the amount taken by all processes together, until the next process begins.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_can_take_its_promised_share_after_greedy_processes() {
        for processes in [1, 2, 8, 100, 5000] {
            let mut quota = Quota::new(0, 1 << 17, processes);
            let mut used = 0;
            for number in 0..processes {
                quota.begin(used, number == 0);
                let room = quota.limit() - used;
                assert!(
                    room >= quota.promised && room >= (1 << 17) / processes / 32,
                    "{number}: {room}"
                );
                used = quota.limit();
            }
            assert_eq!(used, 1 << 17, "the last process may take all that is left");
        }
    }

    #[test]
    fn a_greedy_process_leaves_more_than_half_and_unused_shares_go_to_the_next() {
        let mut quota = Quota::new(0, 1600, 8);
        quota.begin(0, false);
        assert!(quota.limit() < 800);
        quota.begin(quota.limit(), false);
        assert!(quota.limit() < 1200);
        (0..5).for_each(|_| quota.begin(10, false));
        quota.begin(10, false);
        assert_eq!(quota.limit(), 1600);
        quota.close();
        assert_eq!(quota.limit(), 0);
    }
}
