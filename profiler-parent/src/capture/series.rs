//! A series of captures: each profile has the entries that no earlier one of the series has.
//!
//! Used by the pusher. A series is changed only when the file of a profile is complete, so the
//! entries of a capture that has failed are in the next one. Invariant: memory is bounded by the
//! processes that the session lists.

use std::collections::HashMap;

use profiler_core::ids::PoolId;
use profiler_core::internal::entry_counts::EntryCounts;

use crate::processed::EarlierEntries;

/// What the profiles of a series contain.
#[derive(Clone, Debug, Default)]
pub(crate) struct CaptureSeries {
    pools: HashMap<PoolId, PoolInSeries>,
    /// The entries of processes that are no longer listed.
    unlisted_written: u64,
    unlisted_missed: u64,
    /// The processes whose ends are in the series.
    ends: u64,
}

#[derive(Clone, Debug, Default)]
struct PoolInSeries {
    entries: EarlierEntries,
    /// The process has ended, and a profile of the series says how.
    is_over: bool,
}

impl CaptureSeries {
    /// Whether later profiles need not mention a process.
    pub(super) fn is_over(&self, process: PoolId) -> bool {
        self.pools.get(&process).is_some_and(|pool| pool.is_over)
    }

    /// The entries of a process in the profiles of the series.
    pub(super) fn entries_of(&self, process: PoolId) -> EarlierEntries {
        self.pools
            .get(&process)
            .map(|pool| pool.entries.clone())
            .unwrap_or_default()
    }

    /// The next profile has these entries of a process in addition to the earlier ones.
    pub(super) fn note_entries(&mut self, process: PoolId, entries: EarlierEntries) {
        self.pools.entry(process).or_default().entries = entries;
    }

    /// The next profile has these numbers of entries of a process.
    pub(super) fn note_counts(&mut self, process: PoolId, counts: &EntryCounts) {
        if let Some(pool) = self.pools.get_mut(&process) {
            pool.entries.add_counts(counts);
        }
    }

    /// The next profile says how a process has ended.
    pub(super) fn note_end(&mut self, process: PoolId) {
        let pool = self.pools.entry(process).or_default();
        self.ends = self.ends.saturating_add(u64::from(!pool.is_over));
        pool.is_over = true;
    }

    /// Forgets all processes but these.
    pub(super) fn keep(&mut self, is_listed: impl Fn(PoolId) -> bool) {
        let Self {
            pools,
            unlisted_written,
            unlisted_missed,
            ends: _,
        } = self;
        pools.retain(|process, pool| {
            let is_kept = is_listed(*process);
            if !is_kept {
                *unlisted_written = unlisted_written.saturating_add(pool.entries.written());
                *unlisted_missed = unlisted_missed.saturating_add(pool.entries.missed());
            }
            is_kept
        });
    }

    #[cfg_attr(not(feature = "push"), allow(dead_code))] // only a pusher has a series
    /// The number of processes whose ends are in the profiles of the series.
    pub(crate) const fn ends(&self) -> u64 {
        self.ends
    }

    #[cfg_attr(not(feature = "push"), allow(dead_code))] // only a pusher has a series
    /// The number of entries in the profiles of the series.
    pub(crate) fn written(&self) -> u64 {
        let pools = self.pools.values();
        pools.fold(self.unlisted_written, |sum, pool| {
            sum.saturating_add(pool.entries.written())
        })
    }

    #[cfg_attr(not(feature = "push"), allow(dead_code))] // only a pusher has a series
    /// The number of entries that were evicted before a profile contained them.
    pub(crate) fn missed(&self) -> u64 {
        let pools = self.pools.values();
        pools.fold(self.unlisted_missed, |sum, pool| {
            sum.saturating_add(pool.entries.missed())
        })
    }
}
