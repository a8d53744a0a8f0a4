//! The limit on the number of threads in a profile.
//!
//! A pool may have 65,536 rows of threads, and a session any number of pools, but the data about a
//! thread is kept until the profile is written. Invariant: at most [`MAX_THREADS`] are kept; the
//! entries of other threads count as evicted.

use profiler_core::internal::reader::{Snapshot, ThreadInfo};
use profiler_gecko::model::{Delivery, entry_counts};

use super::quota::Quota;

/// Limit on the threads of a profile, including threads that are known only from samples.
pub(super) const MAX_THREADS: usize = 1 << 13;

/// The number of threads that are kept and left out.
#[derive(Debug)]
pub(super) struct ThreadCap {
    quota: Quota,
    kept: usize,
    left_out: u64,
}

impl ThreadCap {
    pub(super) fn new(processes: usize) -> Self {
        Self {
            quota: Quota::new(0, MAX_THREADS, processes),
            kept: 0,
            left_out: 0,
        }
    }

    /// Begins the next process.
    pub(super) fn begin_process(&mut self, is_root: bool) {
        self.quota.begin(self.kept, is_root);
    }

    /// Removes the threads that do not fit, first those without chunks. Calls `removed` with each.
    pub(super) fn keep(&mut self, snapshot: &mut Snapshot, mut removed: impl FnMut(&ThreadInfo)) {
        let room = self.quota.limit().saturating_sub(self.kept);
        if snapshot.threads.len() > room {
            snapshot
                .threads
                .sort_by_key(|thread| (!thread.is_main, thread.chunks.is_empty()));
            for thread in snapshot.threads.drain(room..) {
                snapshot.gone += entry_counts(&thread, Delivery::default());
                removed(&thread);
                self.left_out += 1;
            }
            snapshot.threads.shrink_to_fit();
        }
        self.kept += snapshot.threads.len();
    }

    /// Adds one more thread. Returns whether it fits.
    pub(super) fn one_more(&mut self) -> bool {
        let fits = self.kept < self.quota.limit();
        self.kept += usize::from(fits);
        fits
    }

    /// Number of threads that were left out.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }
}
