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

use std::collections::{BTreeMap, HashMap, HashSet};

use profiler_core::ids::CounterIndex;
use profiler_core::internal::reader::{ChunkInfo, Snapshot, ThreadInfo};
use profiler_core::session::EntryCounts;
use profiler_core::time::Timestamp;

use super::borders::{Border, BorderThread, Borders};

/// The entries of one pool that earlier profiles contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EarlierEntries {
    /// The number of the first entry of each thread that no earlier profile contains.
    next: HashMap<BorderThread, u64>,
    /// The last row of each thread in the earlier profiles.
    borders: Borders,
    /// The counters at the end of the last profile.
    counters: Option<CountersAtEnd>,
    /// The number of entries in earlier profiles.
    written: u64,
    /// The number of entries that were evicted before the first profile; `None` before that.
    before: Option<u64>,
    /// The number of entries that the pool holds and a later profile may contain.
    waiting: u64,
    missed: u64,
}

/// The key of a thread with a row.
pub(super) const fn key_of(thread: &ThreadInfo) -> BorderThread {
    BorderThread::Row(thread.index, thread.registered)
}

/// The counters with which a profile ends. The next one of its series begins with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CountersAtEnd {
    /// The end of the profile.
    pub(super) end: Timestamp,
    /// A time after which the values were not read. They include what the sampler recorded before.
    pub(super) read: Timestamp,
    /// The value and the number of changes of each counter.
    values: BTreeMap<CounterIndex, [u64; 2]>,
}

impl CountersAtEnd {
    /// The counters of a snapshot.
    pub(super) fn of(snapshot: &Snapshot, end: Timestamp, read: Timestamp) -> Self {
        let counters = snapshot.counters.iter();
        let value = |value: i64, number| [value.cast_unsigned(), number];
        let values = counters
            .map(|one| (one.definition.cell, value(one.value, one.number)))
            .collect();
        Self { end, read, values }
    }
}

/// The threads that found no room in a profile.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftOutThreads {
    threads: HashSet<BorderThread>,
    /// The number of their entries that the pool holds and no earlier profile contains.
    entries: u64,
}

impl LeftOutThreads {
    /// Adds a thread.
    pub(super) fn add(&mut self, thread: &ThreadInfo, earlier: &EarlierEntries) {
        self.threads.insert(key_of(thread));
        for chunk in &thread.chunks {
            let new = chunk.entries.saturating_sub(earlier.of(thread, chunk));
            self.entries = self.entries.saturating_add(new);
        }
    }
}

impl EarlierEntries {
    /// The entries of a process that began after the series: none is from before it.
    pub(crate) fn of_new_process() -> Self {
        Self {
            before: Some(0),
            ..Self::default()
        }
    }

    /// The number of entries at the beginning of a chunk that earlier profiles contain.
    pub(super) fn of(&self, thread: &ThreadInfo, chunk: &ChunkInfo) -> u64 {
        let next = self.next.get(&key_of(thread)).copied().unwrap_or(0);
        next.saturating_sub(chunk.first_entry).min(chunk.entries)
    }

    /// The last row of a thread in the earlier profiles.
    pub(super) fn border(&self, thread: BorderThread) -> Option<&Border> {
        self.borders.of(thread)
    }

    /// The end of the last profile.
    pub(super) fn end(&self) -> Option<Timestamp> {
        self.counters.as_ref().map(|counters| counters.end)
    }

    /// Whether a counter has another value, or has changed, since the end of the profiles of
    /// `before`.
    pub(crate) fn has_other_counters_than(&self, before: &Self) -> bool {
        let before = before.counters.as_ref();
        let value_before = |cell| {
            before
                .and_then(|counters| counters.values.get(cell))
                .copied()
                .unwrap_or_default()
        };
        let mut values = self.counters.iter().flat_map(|counters| &counters.values);
        values.any(|(cell, value)| *value != value_before(cell))
    }

    /// Whether the last profile ends with values that include those of this time.
    pub(super) fn has_counters_of(&self, at: Timestamp) -> bool {
        let counters = self.counters.as_ref();
        counters.is_some_and(|counters| at <= counters.read)
    }

    /// The values with which the counters of a snapshot begin: time, value and number of changes. A
    /// counter that the last profile does not have was zero at its end.
    pub(super) fn first_values(&self, snapshot: &Snapshot) -> BTreeMap<CounterIndex, [u64; 3]> {
        let Some(CountersAtEnd { end, values, .. }) = &self.counters else {
            return BTreeMap::new();
        };
        let cells = snapshot.counters.iter().map(|one| one.definition.cell);
        cells
            .map(|cell| {
                let [value, number] = values.get(&cell).copied().unwrap_or_default();
                (cell, [end.raw(), value, number])
            })
            .collect()
    }

    /// The entries of all profiles once there is one of this snapshot, with these borders and
    /// counters. Their number is known when it is written ([`Self::add_counts`]). A thread that
    /// found no room stays as it was.
    pub(super) fn and(
        &self,
        snapshot: &Snapshot,
        mut borders: Borders,
        left_out: &LeftOutThreads,
        counters: CountersAtEnd,
    ) -> Self {
        let is_left_out = |thread: BorderThread| left_out.threads.contains(&thread);
        borders.keep(&self.borders, is_left_out);
        let threads = snapshot.threads.iter();
        let mut next: HashMap<_, _> = threads
            .map(|thread| (key_of(thread), thread.committed()))
            .collect();
        let unchanged = self.next.iter().filter(|(thread, _)| is_left_out(**thread));
        next.extend(unchanged);
        let evicted = snapshot.counts().evicted.saturating_sub(left_out.entries);
        Self {
            next,
            borders,
            counters: Some(counters),
            written: self.written,
            before: Some(self.before.unwrap_or(evicted)),
            waiting: left_out.entries,
            missed: self.missed,
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
        let seen = self.accounted().saturating_sub(self.missed);
        let seen = seen.saturating_add(self.waiting);
        self.missed = committed.saturating_sub(seen).max(self.missed);
    }

    /// Counts the entries of a process whose data is gone, with its final counts. If no profile has
    /// anything of it, and it began before the series, all are from before the series.
    pub(crate) fn end_with(&mut self, counts: &EntryCounts) {
        let EntryCounts {
            delivered,
            outside,
            evicted,
            ..
        } = counts;
        let committed = delivered.saturating_add(*outside).saturating_add(*evicted);
        let before = *self.before.get_or_insert(committed);
        let seen = self.written.saturating_add(before);
        self.waiting = 0;
        self.missed = committed.saturating_sub(seen).max(self.missed);
    }

    /// The number of entries that are in profiles, missed, or from before the series.
    pub(crate) fn accounted(&self) -> u64 {
        let seen = self.written.saturating_add(self.before.unwrap_or(0));
        seen.saturating_add(self.missed)
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
