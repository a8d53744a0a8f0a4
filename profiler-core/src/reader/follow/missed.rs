//! What went before a follower had read it, by the writer's books.
//!
//! Held by [`super::Follower`]. The writer counts the entries of a chunk in its thread's row before it closes the chunk, so
//! between the two, or for ever if it dies there, a chunk is counted and still there to be read:
//!
//! ```text
//! writer          count X ──────────▶ close X
//! follower   look ─────── books ─────── look ── missed = counted − at first − of chunks that had been read
//! look, books:            X            X is there still: what was counted of it is not missed yet
//! ```
//!
//! Invariants: books are used after the look that follows them, so all that they count has been seen to go by then, but for
//! one chunk: the manager's lock is held from the one step to the other. That one is known by its number: all entries of
//! its thread before its first one had gone.

use std::collections::BTreeMap;

use crate::ids::ThreadIndex;
use crate::reader::tables::{Books, ThreadInfo};
use crate::time::Timestamp;

/// What books say of evictions.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    all: u64,
    /// Of threads whose rows are theirs still: since when they are, and how many.
    of_threads: BTreeMap<ThreadIndex, (Timestamp, u64)>,
}

impl Counted {
    pub(super) fn new(books: &Books) -> Self {
        let gone = books.process.map_or(0, |process| process.counts.evicted);
        let all = books.threads.iter().fold(gone, |sum, thread| sum.saturating_add(thread.evicted));
        let evicting = books.threads.iter().filter(|thread| thread.evicted > 0);
        let of_threads = evicting.map(|thread| (thread.index, (thread.registered, thread.evicted))).collect();
        Self { all, of_threads }
    }

    /// How many entries these books count of a chunk of this row that begins with that number, and of later ones.
    pub(super) fn counted_from(&self, row: ThreadIndex, first_entry: u64) -> u64 {
        self.of_threads.get(&row).map_or(0, |(_, evicted)| evicted.saturating_sub(first_entry))
    }

    /// Whether the row was this thread's then.
    pub(super) fn is_of(&self, thread: &ThreadInfo) -> bool {
        self.of_threads.get(&thread.index).is_some_and(|(registered, _)| *registered == thread.registered)
    }
}

/// The books of what went.
#[derive(Clone, Debug, Default)]
pub(super) struct Evicted {
    /// When following began; `None` before.
    at_first: Option<u64>,
    /// No look has followed the first books yet.
    begins: bool,
    /// By the latest reading.
    now: u64,
    /// Entries of chunks that went after they were read.
    read: u64,
    /// Chunks went since the latest reading.
    pub(super) is_stale: bool,
    /// The latest books, while a chunk that they count may be there still.
    pub(super) unsettled: Option<Counted>,
}

impl Evicted {
    /// Nothing has gone yet: a session begins.
    pub(super) fn from_the_beginning() -> Self {
        Self { at_first: Some(0), ..Self::default() }
    }

    pub(super) const fn has_begun(&self) -> bool {
        self.at_first.is_some()
    }

    /// Following begins with these books: what had gone by then is not missed.
    pub(super) fn begin(&mut self, books: Counted) {
        (self.at_first, self.now, self.begins) = (Some(books.all), books.all, true);
        self.unsettled = Some(books);
    }

    /// A chunk has gone of which so many entries had been read.
    pub(super) fn note_gone(&mut self, read: u64) {
        self.read = self.read.saturating_add(read);
    }

    /// Takes newer books, to be used after the next look.
    pub(super) fn renew(&mut self, books: Counted) {
        self.now = books.all;
        self.is_stale = false;
        self.unsettled = Some(books);
    }

    /// What went unread, after a look that found so many entries still there that the latest books count.
    pub(super) fn missed(&mut self, still_there: u64) -> u64 {
        let Some(first) = &mut self.at_first else { return 0 };
        if std::mem::take(&mut self.begins) {
            *first = first.saturating_sub(still_there); // it goes from now on
        }
        if still_there == 0 {
            self.unsettled = None;
        }
        self.now.saturating_sub(still_there).saturating_sub(*first).saturating_sub(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(all: u64) -> Counted {
        Counted { all, ..Counted::default() }
    }

    #[test]
    fn what_had_gone_before_is_not_missed_and_what_was_read_is_not_either() {
        let mut evicted = Evicted::default();
        assert!(!evicted.has_begun() && evicted.missed(0) == 0);
        evicted.begin(counted(100));
        assert_eq!(evicted.missed(0), 0);
        evicted.note_gone(30);
        assert_eq!(evicted.missed(0), 0, "the books do not know it yet");
        evicted.renew(counted(150));
        assert_eq!((evicted.missed(20), evicted.unsettled.is_some()), (0, true));
        assert_eq!((evicted.missed(0), evicted.unsettled.is_some()), (20, false));
    }

    #[test]
    fn what_the_first_books_count_of_a_chunk_that_is_there_still_is_given_and_neither_missed_nor_read_before()
    {
        let mut evicted = Evicted::default();
        evicted.begin(counted(100));
        assert_eq!(evicted.missed(10), 0);
        evicted.note_gone(10); // it was read after all
        evicted.renew(counted(140));
        assert_eq!(evicted.missed(0), 40);
    }
}
