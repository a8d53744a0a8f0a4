//! Computes the number of entries evicted before a follower had read them, from the writer's
//! counts.
//!
//! Held by [`super::Follower`]. The writer counts the entries of a chunk in its thread's row before
//! it closes the chunk. In between, or permanently if it dies there, a chunk is counted and still
//! readable:
//!
//! ```text
//! writer          count X ──────────▶ close X
//! follower   pass ─────── counts ────── pass ── missed = counted − at first − read before eviction
//! pass, counts:           X             X is still there: its counted entries are not missed yet
//! ```
//!
//! Invariants: counts are used only after the pass that follows them. That pass has seen every
//! counted chunk disappear, except at most one, because the manager's lock is held between the two
//! steps of the writer. The number of its first entry identifies that chunk: all earlier entries of
//! its thread had been evicted.

use std::collections::BTreeMap;

use crate::ids::ThreadIndex;
use crate::reader::tables::{EntryCountRows, ThreadInfo};
use crate::time::Timestamp;

/// Evicted entries according to the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    all: u64,
    /// For each thread that still has its row: when it registered, and its number.
    of_threads: BTreeMap<ThreadIndex, (Timestamp, u64)>,
}

impl Counted {
    pub(super) fn new(counts: &EntryCountRows) -> Self {
        let gone = counts.process.map_or(0, |process| process.counts.evicted);
        let all = counts
            .threads
            .iter()
            .fold(gone, |sum, thread| sum.saturating_add(thread.evicted));
        let evicting = counts.threads.iter().filter(|thread| thread.evicted > 0);
        let of_threads = evicting
            .map(|thread| (thread.index, (thread.registered, thread.evicted)))
            .collect();
        Self { all, of_threads }
    }

    /// The number of entries of the thread in this row, from `first_entry` on, that are counted as
    /// evicted.
    pub(super) fn counted_from(&self, row: ThreadIndex, first_entry: u64) -> u64 {
        self.of_threads
            .get(&row)
            .map_or(0, |(_, evicted)| evicted.saturating_sub(first_entry))
    }

    /// Whether the row belonged to this thread when the counts were read.
    pub(super) fn is_of(&self, thread: &ThreadInfo) -> bool {
        self.of_threads
            .get(&thread.index)
            .is_some_and(|(registered, _)| *registered == thread.registered)
    }
}

/// The evicted entries since following began, and how many of them were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Evicted {
    /// The count when following began; `None` before.
    at_first: Option<u64>,
    /// Whether no pass has followed the first counts yet.
    begins: bool,
    /// The count at the latest reading.
    now: u64,
    /// Entries of destroyed chunks that were read before, or put off.
    read: u64,
    /// Whether chunks were destroyed since the latest reading.
    pub(super) is_stale: bool,
    /// The latest counts, while a chunk that they count may still exist.
    pub(super) unsettled: Option<Counted>,
}

impl Evicted {
    /// For a new session, in which nothing has been evicted yet.
    pub(super) fn from_the_beginning() -> Self {
        Self {
            at_first: Some(0),
            ..Self::default()
        }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.at_first.is_some()
    }

    /// The count when following began.
    pub(super) fn at_first(&self) -> u64 {
        self.at_first.unwrap_or(0)
    }

    /// Following begins with these counts: earlier evictions are not missed.
    pub(super) fn begin(&mut self, counts: Counted) {
        (self.at_first, self.now, self.begins) = (Some(counts.all), counts.all, true);
        self.unsettled = Some(counts);
    }

    /// Notes that a chunk was destroyed after `read` of its entries had been read or put off.
    pub(super) fn note_gone(&mut self, read: u64) {
        self.read = self.read.saturating_add(read);
    }

    /// Takes newer counts, to be used after the next pass.
    pub(super) fn renew(&mut self, counts: Counted) {
        self.now = counts.all;
        self.is_stale = false;
        self.unsettled = Some(counts);
    }

    /// The missed entries, after a pass that found `still_there` entries that still exist although
    /// the latest counts include them.
    pub(super) fn missed(&mut self, still_there: u64) -> u64 {
        let Some(first) = &mut self.at_first else {
            return 0;
        };
        if std::mem::take(&mut self.begins) {
            *first = first.saturating_sub(still_there); // evicted after the start
        }
        if still_there == 0 {
            self.unsettled = None;
        }
        self.now
            .saturating_sub(still_there)
            .saturating_sub(*first)
            .saturating_sub(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(all: u64) -> Counted {
        Counted {
            all,
            ..Counted::default()
        }
    }

    #[test]
    fn entries_evicted_before_the_start_or_after_they_were_read_are_not_missed() {
        let mut evicted = Evicted::default();
        assert!(!evicted.has_begun() && evicted.missed(0) == 0);
        evicted.begin(counted(100));
        assert_eq!(evicted.missed(0), 0);
        evicted.note_gone(30);
        assert_eq!(evicted.missed(0), 0, "the counts do not include it yet");
        evicted.renew(counted(150));
        assert_eq!((evicted.missed(20), evicted.unsettled.is_some()), (0, true));
        assert_eq!(
            (evicted.missed(0), evicted.unsettled.is_some()),
            (20, false)
        );
    }

    #[test]
    fn a_chunk_counted_but_still_readable_at_the_start_counts_as_evicted_later() {
        let mut evicted = Evicted::default();
        evicted.begin(counted(100));
        assert_eq!(evicted.missed(10), 0);
        evicted.note_gone(10); // it had been read
        evicted.renew(counted(140));
        assert_eq!(evicted.missed(0), 40);
    }
}
