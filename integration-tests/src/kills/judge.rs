//! Holds what was found of a process against what the process said: the verdict of every kill.
//!
//! The law, per thread: entries that the child went on after are delivered, or counted as evicted or
//! dropped; entries that it never began are not there; at most one is unfinished; numbers come in order
//! and once. Without drops the numbers that are missing at the front are exactly those counted as
//! evicted, and none is missing behind; with drops, exactly so many more are missing as are counted.

use super::board::Said;
use super::found::{Found, FoundThread};

/// Complaints that are kept in full; more are only counted.
const KEPT: usize = 20;

/// What all kills together showed.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Processes killed.
    pub kills: u64,
    /// Of these, killed before their first entry.
    pub before_first: u64,
    /// Of these, killed in the middle of an entry.
    pub inside_entry: u64,
    /// Processes also looked at in a saved profile.
    pub in_profiles: u64,
    /// Entries that were found.
    pub delivered: u64,
    /// Entries counted as evicted.
    pub evicted: u64,
    /// Entries counted as dropped.
    pub dropped: u64,
    /// Entries counted as unfinished.
    pub unfinished: u64,
    /// Entries that a child went on after, and that are nowhere: not even counted.
    pub committed_lost: u64,
    /// Entries that are not as they were recorded.
    pub torn: u64,
    /// Entries found twice, or out of order.
    pub duplicates: u64,
    /// Everything that broke the law, in words.
    pub complaints: Vec<String>,
    /// How many complaints there were.
    pub broken: u64,
}

impl Tally {
    /// Notes that the law was broken.
    pub fn complain(&mut self, what: String) {
        self.broken += 1;
        if self.complaints.len() < KEPT {
            self.complaints.push(what);
        }
    }

    /// Adds what another tally has.
    pub fn add(&mut self, other: Self) {
        self.kills += other.kills;
        self.before_first += other.before_first;
        self.inside_entry += other.inside_entry;
        self.in_profiles += other.in_profiles;
        self.delivered += other.delivered;
        self.evicted += other.evicted;
        self.dropped += other.dropped;
        self.unfinished += other.unfinished;
        self.committed_lost += other.committed_lost;
        self.torn += other.torn;
        self.duplicates += other.duplicates;
        self.broken += other.broken;
        let room = KEPT.saturating_sub(self.complaints.len());
        self.complaints.extend(other.complaints.into_iter().take(room));
    }

    /// Judges one dead process. `said` holds, per writer, a lower bound of what returned and an upper one of
    /// what was begun.
    pub fn judge(&mut self, name: &str, said: &[Said], found: &Found) {
        self.judge_as(name, said, found, false);
    }

    /// Judges one process that went on recording while its entries were taken: old ones may have been evicted
    /// behind some that had been taken already, so it is not told where numbers are missing, only how many.
    pub fn judge_living(&mut self, name: &str, said: &[Said], found: &Found) {
        self.judge_as(name, said, found, true);
    }

    fn judge_as(&mut self, name: &str, said: &[Said], found: &Found, lives: bool) {
        self.delivered += found.total.delivered;
        self.evicted += found.total.evicted;
        self.dropped += found.total.dropped.total();
        self.unfinished += found.total.unfinished;
        self.judge_total(name, said, found);
        let told_apart: u64 = found.threads.iter().map(|thread| thread.books.recorded()).sum();
        // Some attempts are in the books of no thread: those of threads that are gone, and those that a
        // thread made before it could get a row.
        let gone = found.total.recorded().saturating_sub(told_apart);
        let rowless = found.threads.iter().map(|thread| thread.books.dropped.total()).sum();
        let rowless = found.total.dropped.total().saturating_sub(rowless);
        for thread in &found.threads {
            let said = said.get(thread.writer as usize).copied().unwrap_or_default();
            let name = format!("{name}, writer {}", thread.writer);
            self.judge_order(&name, said, thread);
            self.judge_books(&name, said, thread, (gone, rowless), lives);
        }
    }

    /// Judges a process whose data was given up while it died: what is there is whole and in order.
    pub fn judge_what_is_there(&mut self, name: &str, said: &[Said], found: &Found) {
        for thread in &found.threads {
            let said = said.get(thread.writer as usize).copied().unwrap_or_default();
            self.judge_order(&format!("{name}, writer {}", thread.writer), said, thread);
        }
    }

    /// The same tally without what was found in order.
    #[must_use]
    pub fn only_what_is_wrong(self) -> Self {
        let Self { committed_lost, torn, duplicates, complaints, broken, .. } = self;
        Self { committed_lost, torn, duplicates, complaints, broken, ..Self::default() }
    }

    fn judge_total(&mut self, name: &str, said: &[Said], found: &Found) {
        let sum = |of: fn(&Said) -> u64| said.iter().map(of).sum::<u64>();
        let (returned, begun) = (sum(|said| said.returned), sum(|said| said.begun));
        let recorded = found.total.recorded();
        let settled = recorded - found.total.unfinished;
        self.committed_lost += returned.saturating_sub(settled);
        if settled < returned || recorded > begun {
            self.complain(format!("{name}: {returned} to {begun} entries were recorded: {:?}", found.total));
        }
    }

    /// Every entry whole, once, in order, and none that was not begun.
    fn judge_order(&mut self, name: &str, said: Said, thread: &FoundThread) {
        let numbers = &thread.numbers;
        let doubled = numbers.windows(2).filter(|pair| pair[0] >= pair[1]).count() as u64;
        self.torn += thread.torn;
        self.duplicates += doubled;
        let invented = numbers.iter().filter(|number| **number >= said.begun).count();
        if thread.torn + doubled > 0 || invented > 0 {
            self.complain(format!("{name}: {} torn, {doubled} doubled, {invented} invented", thread.torn));
        }
    }

    /// As many are missing as are counted, and where they are counted. `elsewhere`: all entries that are in
    /// the books of no thread, and those of them that were dropped.
    fn judge_books(
        &mut self,
        name: &str,
        said: Said,
        thread: &FoundThread,
        elsewhere: (u64, u64),
        lives: bool,
    ) {
        let (books, (gone, rowless)) = (&thread.books, elsewhere);
        let found = thread.numbers.len() as u64 + thread.torn;
        let front = thread.numbers.first().copied().unwrap_or(books.evicted);
        let span = thread.numbers.last().map_or(0, |last| (last + 1).saturating_sub(front));
        let holes = span.saturating_sub(found);
        let dropped = books.dropped.total();
        let settled = books.recorded() - books.unfinished;
        let (early, missing) = if lives {
            (0, (front + holes).saturating_sub(books.evicted))
        } else {
            (books.evicted.saturating_sub(front), front.saturating_sub(books.evicted) + holes)
        };
        let wrong = [
            (books.delivered != found, "the books do not know what is there"),
            (books.unfinished > 1, "more than one unfinished"),
            (books.recorded() > said.begun, "more in the books than was begun"),
            (settled + gone < said.returned, "recorded and nowhere"),
            (early > 0, "evicted and yet there"),
            (missing > dropped + rowless, "missing and not counted"),
        ];
        for (_, what) in wrong.iter().filter(|(is_wrong, _)| *is_wrong) {
            self.complain(format!(
                "{name}: {what}: {said:?}, {books:?}, {found} from {front} on, {holes} holes, {gone} elsewhere ({rowless} dropped)"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_core::internal::entry_counts::{Drops, EntryCounts};

    fn found(numbers: &[u64], evicted: u64, dropped: u64, unfinished: u64) -> Found {
        let delivered = numbers.len() as u64;
        let dropped = Drops::new([dropped, 0, 0, 0, 0, 0, 0]);
        let books = EntryCounts { delivered, evicted, dropped, unfinished };
        let thread = FoundThread { writer: 0, numbers: numbers.to_vec(), torn: 0, books };
        Found { threads: vec![thread], total: books }
    }

    fn broken(begun: u64, returned: u64, found: &Found) -> u64 {
        let mut tally = Tally::default();
        tally.judge("child", &[Said { begun, returned }], found);
        tally.broken
    }

    #[test]
    fn what_a_killed_child_leaves_is_accepted() {
        assert_eq!(broken(6, 6, &found(&[0, 1, 2, 3, 4, 5], 0, 0, 0)), 0);
        assert_eq!(broken(6, 5, &found(&[0, 1, 2, 3, 4], 0, 0, 0)), 0, "begun, not committed");
        assert_eq!(broken(6, 5, &found(&[0, 1, 2, 3, 4], 0, 0, 1)), 0, "begun and noted");
        assert_eq!(broken(6, 5, &found(&[0, 1, 2, 3, 4, 5], 0, 0, 0)), 0, "committed, not returned");
        assert_eq!(broken(9, 9, &found(&[4, 5, 6, 7, 8], 4, 0, 0)), 0);
        assert_eq!(broken(9, 9, &found(&[5, 6, 8], 4, 2, 0)), 0, "dropped and counted");
        assert_eq!(broken(9, 9, &found(&[], 9, 0, 0)), 0, "all evicted");
    }

    #[test]
    fn everything_else_is_not() {
        assert!(broken(6, 6, &found(&[0, 1, 2, 3, 4], 0, 0, 0)) > 0, "lost");
        assert!(broken(6, 6, &found(&[0, 1, 2, 3, 4], 0, 0, 1)) > 0, "returned, yet unfinished");
        assert!(broken(6, 6, &found(&[0, 1, 3, 4, 5], 1, 0, 0)) > 0, "a hole where none was counted");
        assert!(broken(6, 6, &found(&[0, 1, 2, 2, 3, 4], 0, 0, 0)) > 0, "doubled");
        assert!(broken(6, 6, &found(&[1, 2, 3, 4, 5], 0, 0, 1)) > 0, "missing at the front");
        assert!(broken(6, 6, &found(&[0, 1, 2, 3, 4, 5, 6], 0, 0, 0)) > 0, "never begun");
        assert!(broken(9, 9, &found(&[3, 4, 5, 6, 7, 8], 4, 0, 0)) > 0, "evicted and yet there");
    }

    #[test]
    fn a_living_process_may_evict_behind_what_was_taken() {
        let broken = |evicted| {
            let mut tally = Tally::default();
            tally.judge_living(
                "child",
                &[Said { begun: 9, returned: 5 }],
                &found(&[2, 3, 6, 7], evicted, 0, 0),
            );
            tally.broken
        };
        assert_eq!(broken(4), 0);
        assert!(broken(3) > 0, "one more is missing than is counted");
    }
}
