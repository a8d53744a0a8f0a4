//! Shares of what all processes of a profile have together, so that none can take what others need.
//!
//! Used by the tables that are filled process by process. A process may take half of what nobody needs for sure; the
//! program itself, which comes first, all of it; the last one, what is left. Invariant: whatever those before it
//! did, each process finds at least [`Quota::promised`].

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    most: usize,
    promised: usize,
    /// Processes that are still to come.
    waiting: usize,
    limit: usize,
}

/// No process is promised more than this part of all: of few processes, one may well need most of it.
const LARGEST_PROMISE: usize = 16;

impl Quota {
    /// Of what goes from `used` to `most`, for so many processes. Until the first begins there is no limit but `most`.
    pub(super) fn new(used: usize, most: usize, processes: usize) -> Self {
        let all = most.saturating_sub(used);
        let promised = (all / processes.max(1) / 2).min(all / LARGEST_PROMISE);
        Self { most, promised, waiting: processes, limit: most }
    }

    /// The next process begins, when `used` is taken.
    pub(super) fn begin(&mut self, used: usize, is_root: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        let free = self.most.saturating_sub(used);
        let unpromised = free.saturating_sub(self.promised.saturating_mul(self.waiting));
        let share = if is_root || self.waiting == 0 { unpromised } else { unpromised / 2 };
        self.limit = used.saturating_add(share.max(self.promised).min(free));
    }

    /// Nothing more is taken.
    pub(super) fn close(&mut self) {
        self.limit = 0;
    }

    /// How much may be taken, all in all, until the next process begins.
    pub(super) const fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_those_before_it_took_a_process_finds_what_it_was_promised() {
        for processes in [1, 2, 8, 100, 5000] {
            let (mut quota, mut used) = (Quota::new(0, 1 << 17, processes), 0);
            for number in 0..processes {
                quota.begin(used, number == 0);
                let room = quota.limit() - used;
                assert!(room >= quota.promised && room >= (1 << 17) / processes / 32, "{number}: {room}");
                used = quota.limit();
            }
            assert_eq!(used, 1 << 17, "the last one may have all that is left");
        }
    }

    #[test]
    fn one_greedy_process_leaves_more_than_half_and_what_nobody_takes_is_for_the_next() {
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
