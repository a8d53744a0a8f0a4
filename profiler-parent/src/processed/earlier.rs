//! Which entries of a pool are in earlier profiles of a series.
//!
//! Used by a capture that continues a series: each profile of the series has the entries that none
//! before it has. The entries of a thread are numbered in the order in which it commits them, so
//! one number per thread suffices. Times would not: an entry is committed after its time was taken.
//!
//! ```text
//! thread     entries 0 … 99      100 … 149           150 … 180
//!            in earlier          in earlier profiles  new
//!            profiles, evicted   skipped              written
//!                                          next = 150
//! ```
//!
//! Invariants: an entry is in at most one profile of a series, also if it is evicted meanwhile; the
//! entries that are in none are counted ([`EarlierEntries::missed`]).

use std::collections::HashMap;

use profiler_core::ids::ThreadIndex;
use profiler_core::internal::entry_counts::EntryCounts;
use profiler_core::internal::reader::{ChunkInfo, Snapshot, ThreadInfo};
use profiler_core::time::Timestamp;

/// A thread of a pool: a row is used by another thread after the end of one.
type ThreadKey = (ThreadIndex, Timestamp);

/// The entries of one pool that earlier profiles contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlierEntries {
    /// The number of the first entry of each thread that no earlier profile contains.
    next: HashMap<ThreadKey, u64>,
    /// The number of entries in earlier profiles.
    written: u64,
    /// The number of entries that were evicted before the first profile; `None` before that.
    before: Option<u64>,
    missed: u64,
}

fn key_of(thread: &ThreadInfo) -> ThreadKey {
    (thread.index, thread.registered)
}

impl EarlierEntries {
    /// The number of entries at the beginning of a chunk that earlier profiles contain.
    pub(super) fn of(&self, thread: &ThreadInfo, chunk: &ChunkInfo) -> u64 {
        let next = self.next.get(&key_of(thread)).copied().unwrap_or(0);
        next.saturating_sub(chunk.first_entry).min(chunk.entries)
    }

    /// The entries of all profiles once there is one of this snapshot. Their number is known when
    /// it is written ([`Self::add_counts`]).
    pub(super) fn and(&self, snapshot: &Snapshot) -> Self {
        let threads = snapshot.threads.iter();
        Self {
            next: threads
                .map(|thread| (key_of(thread), thread.committed()))
                .collect(),
            before: Some(self.before.unwrap_or(snapshot.counts().evicted)),
            ..*self
        }
    }

    /// Adds the entries of a profile that was written. An entry that is evicted while it is written
    /// is missed.
    pub(crate) fn add_counts(&mut self, counts: &EntryCounts) {
        let EntryCounts {
            delivered,
            outside,
            evicted,
            ..
        } = counts;
        self.written = self.written.saturating_add(*delivered);
        let committed = delivered.saturating_add(*outside).saturating_add(*evicted);
        let seen = self.written.saturating_add(self.before.unwrap_or(0));
        self.missed = committed.saturating_sub(seen).max(self.missed);
    }

    /// The number of entries that were evicted after the first profile of the series began and
    /// before a profile contained them.
    pub(crate) const fn missed(&self) -> u64 {
        self.missed
    }

    /// The number of entries in the profiles of the series.
    pub(crate) const fn written(&self) -> u64 {
        self.written
    }
}
