//! The largest number of threads in a profile.
//!
//! A pool may have 65,536 rows of threads, and a session any number of pools, but what is known of
//! a thread is kept until the profile is written. Invariant: at most [`MAX_THREADS`] are kept; the
//! entries of other threads count as evicted.

use profiler_core::internal::profile::model::entry_counts;
use profiler_core::internal::reader::Snapshot;

use super::quota::Quota;

/// Most threads of a profile, those that are known from samples alone included.
pub(super) const MAX_THREADS: usize = 1 << 13;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct ThreadCap {
    quota: Quota,
    kept: usize,
    left_out: u64,
}

impl ThreadCap {
    pub(super) fn new(processes: usize) -> Self {
        Self { quota: Quota::new(0, MAX_THREADS, processes), kept: 0, left_out: 0 }
    }

    /// The next process begins.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.quota.begin(self.kept, is_root);
    }

    /// Leaves out threads that are too many, those with nothing of their own first.
    pub(super) fn keep(&mut self, snapshot: &mut Snapshot) {
        let room = self.quota.limit().saturating_sub(self.kept);
        if snapshot.threads.len() > room {
            snapshot.threads.sort_by_key(|thread| (!thread.is_main, thread.chunks.is_empty()));
            for thread in snapshot.threads.drain(room..) {
                snapshot.gone += entry_counts(&thread, 0);
                self.left_out += 1;
            }
            snapshot.threads.shrink_to_fit();
        }
        self.kept += snapshot.threads.len();
    }

    /// Whether there is room for another; then it is taken.
    pub(super) fn one_more(&mut self) -> bool {
        let fits = self.kept < self.quota.limit();
        self.kept += usize::from(fits);
        fits
    }

    /// How many threads were left out.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }
}
