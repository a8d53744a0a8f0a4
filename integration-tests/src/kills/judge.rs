//! Compares what was found of a process with what the process reported, and counts violations.
//!
//! The rules, for each thread: an entry whose recording returned is delivered, or counted as
//! evicted or dropped; an entry that never began does not occur; at most one entry is unfinished;
//! the numbers are unique and in order. Without drops, the missing numbers are exactly the first
//! ones, and are counted as evicted. With drops, at most as many more are missing as are counted as
//! dropped.

use super::board::Said;
use super::found::{Found, FoundThread};

/// Number of complaints that are kept as text. Further ones are only counted.
const KEPT: usize = 20;

/// The sum of the results of all kills.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Processes that were killed.
    pub kills: u64,
    /// Of these, processes that were killed before their first entry.
    pub before_first: u64,
    /// Of these, processes that were killed while they recorded an entry.
    pub inside_entry: u64,
    /// Processes that were also checked in a saved profile.
    pub in_profiles: u64,
    /// Entries that were found.
    pub delivered: u64,
    /// Entries counted as evicted.
    pub evicted: u64,
    /// Entries counted as dropped.
    pub dropped: u64,
    /// Entries counted as unfinished.
    pub unfinished: u64,
    /// Entries whose recording returned, and that are neither found nor counted.
    pub committed_lost: u64,
    /// Entries that differ from what was recorded.
    pub torn: u64,
    /// Entries found twice, or out of order.
    pub duplicates: u64,
    /// Descriptions of the first violations.
    pub complaints: Vec<String>,
    /// Number of violations.
    pub broken: u64,
}

impl Tally {
    /// Adds a violation.
    pub fn complain(&mut self, what: String) {
        self.broken += 1;
        if self.complaints.len() < KEPT {
            self.complaints.push(what);
        }
    }

    /// Adds another tally.
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
        self.complaints
            .extend(other.complaints.into_iter().take(room));
    }

    /// Judges a dead process. For each writer, `said` contains a lower bound of the entries that
    /// returned and an upper bound of the entries that began.
    pub fn judge(&mut self, name: &str, said: &[Said], found: &Found) {
        self.judge_as(name, said, found, false);
    }

    /// Judges a process that recorded while its entries were read. An entry may have been evicted
    /// after an older one was read, so only the number of missing entries is checked, not their
    /// position.
    pub fn judge_living(&mut self, name: &str, said: &[Said], found: &Found) {
        self.judge_as(name, said, found, true);
    }

    fn judge_as(&mut self, name: &str, said: &[Said], found: &Found, lives: bool) {
        self.delivered += found.total.delivered;
        self.evicted += found.total.evicted;
        self.dropped += found.total.dropped.total();
        self.unfinished += found.total.unfinished;
        self.judge_total(name, said, found);
        let in_threads: u64 = found
            .threads
            .iter()
            .map(|thread| thread.counts.recorded())
            .sum();
        // Some entries are in no thread's counts: those of threads that are no longer listed, and
        // those that a thread tried to record before it had a row.
        let elsewhere = found.total.recorded().saturating_sub(in_threads);
        let dropped_in_threads = found
            .threads
            .iter()
            .map(|thread| thread.counts.dropped.total())
            .sum();
        let dropped_elsewhere = found
            .total
            .dropped
            .total()
            .saturating_sub(dropped_in_threads);
        for thread in &found.threads {
            let said = said
                .get(thread.writer as usize)
                .copied()
                .unwrap_or_default();
            let name = format!("{name}, writer {}", thread.writer);
            self.judge_order(&name, said, thread);
            self.judge_counts(&name, said, thread, (elsewhere, dropped_elsewhere), lives);
        }
    }

    /// Judges a process whose session ended while it died. The remaining entries must be whole and
    /// in order.
    pub fn judge_remaining(&mut self, name: &str, said: &[Said], found: &Found) {
        for thread in &found.threads {
            let said = said
                .get(thread.writer as usize)
                .copied()
                .unwrap_or_default();
            self.judge_order(&format!("{name}, writer {}", thread.writer), said, thread);
        }
    }

    /// Returns the violations of this tally, without the other counts.
    #[must_use]
    pub fn only_violations(self) -> Self {
        let Self {
            committed_lost,
            torn,
            duplicates,
            complaints,
            broken,
            ..
        } = self;
        Self {
            committed_lost,
            torn,
            duplicates,
            complaints,
            broken,
            ..Self::default()
        }
    }

    fn judge_total(&mut self, name: &str, said: &[Said], found: &Found) {
        let sum = |of: fn(&Said) -> u64| said.iter().map(of).sum::<u64>();
        let returned = sum(|said| said.returned);
        let begun = sum(|said| said.begun);
        let recorded = found.total.recorded();
        let settled = recorded - found.total.unfinished;
        self.committed_lost += returned.saturating_sub(settled);
        if settled < returned || recorded > begun {
            self.complain(format!(
                "{name}: {returned} to {begun} entries were recorded: {:?}",
                found.total
            ));
        }
    }

    /// Checks that every entry is whole, unique and in order, and that it was begun.
    fn judge_order(&mut self, name: &str, said: Said, thread: &FoundThread) {
        let numbers = &thread.numbers;
        let doubled = numbers.windows(2).filter(|pair| pair[0] >= pair[1]).count() as u64;
        self.torn += thread.torn;
        self.duplicates += doubled;
        let invented = numbers
            .iter()
            .filter(|number| **number >= said.begun)
            .count();
        if thread.torn + doubled > 0 || invented > 0 {
            self.complain(format!(
                "{name}: {} torn, {doubled} doubled, {invented} invented",
                thread.torn
            ));
        }
    }

    /// Checks that no more entries are missing than are counted, and that evicted entries are
    /// missing at the front. `elsewhere` is the number of all entries that are in no thread's
    /// counts, and the number of dropped entries among them.
    fn judge_counts(
        &mut self,
        name: &str,
        said: Said,
        thread: &FoundThread,
        elsewhere: (u64, u64),
        lives: bool,
    ) {
        let (counts, (elsewhere, dropped_elsewhere)) = (&thread.counts, elsewhere);
        let found = thread.numbers.len() as u64 + thread.torn;
        let front = thread.numbers.first().copied().unwrap_or(counts.evicted);
        let span = thread
            .numbers
            .last()
            .map_or(0, |last| (last + 1).saturating_sub(front));
        let holes = span.saturating_sub(found);
        let dropped = counts.dropped.total();
        let settled = counts.recorded() - counts.unfinished;
        let (early, missing) = if lives {
            (0, (front + holes).saturating_sub(counts.evicted))
        } else {
            (
                counts.evicted.saturating_sub(front),
                front.saturating_sub(counts.evicted) + holes,
            )
        };
        let wrong = [
            (
                counts.delivered != found,
                "another number is counted as delivered",
            ),
            (counts.unfinished > 1, "more than one unfinished entry"),
            (
                counts.recorded() > said.begun,
                "more entries counted than begun",
            ),
            (
                settled + elsewhere < said.returned,
                "recorded, but neither found nor counted",
            ),
            (early > 0, "counted as evicted, but found"),
            (
                missing > dropped + dropped_elsewhere,
                "missing, but not counted",
            ),
        ];
        for (_, what) in wrong.iter().filter(|(is_wrong, _)| *is_wrong) {
            self.complain(format!(
                "{name}: {what}: {said:?}, {counts:?}, {found} from {front} on, {holes} holes, {elsewhere} elsewhere ({dropped_elsewhere} dropped)"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_core::session::{Drops, EntryCounts};

    fn found(numbers: &[u64], evicted: u64, dropped: u64, unfinished: u64) -> Found {
        let delivered = numbers.len() as u64;
        let dropped = Drops::new([dropped, 0, 0, 0, 0, 0, 0]);
        let counts = EntryCounts {
            delivered,
            outside: 0,
            evicted,
            dropped,
            unfinished,
        };
        let thread = FoundThread {
            writer: 0,
            numbers: numbers.to_vec(),
            torn: 0,
            counts,
        };
        Found {
            threads: vec![thread],
            total: counts,
        }
    }

    fn broken(begun: u64, returned: u64, found: &Found) -> u64 {
        let mut tally = Tally::default();
        tally.judge("child", &[Said { begun, returned }], found);
        tally.broken
    }

    #[test]
    fn complete_entries_and_counted_losses_are_accepted() {
        assert_eq!(broken(6, 6, &found(&[0, 1, 2, 3, 4, 5], 0, 0, 0)), 0);
        assert_eq!(
            broken(6, 5, &found(&[0, 1, 2, 3, 4], 0, 0, 0)),
            0,
            "begun, but not committed"
        );
        assert_eq!(
            broken(6, 5, &found(&[0, 1, 2, 3, 4], 0, 0, 1)),
            0,
            "begun, and counted as unfinished"
        );
        assert_eq!(
            broken(6, 5, &found(&[0, 1, 2, 3, 4, 5], 0, 0, 0)),
            0,
            "committed, but not returned"
        );
        assert_eq!(broken(9, 9, &found(&[4, 5, 6, 7, 8], 4, 0, 0)), 0);
        assert_eq!(
            broken(9, 9, &found(&[5, 6, 8], 4, 2, 0)),
            0,
            "dropped and counted"
        );
        assert_eq!(broken(9, 9, &found(&[], 9, 0, 0)), 0, "all evicted");
    }

    #[test]
    fn damaged_entries_and_uncounted_losses_are_rejected() {
        assert!(broken(6, 6, &found(&[0, 1, 2, 3, 4], 0, 0, 0)) > 0, "lost");
        assert!(
            broken(6, 6, &found(&[0, 1, 2, 3, 4], 0, 0, 1)) > 0,
            "returned, but unfinished"
        );
        assert!(
            broken(6, 6, &found(&[0, 1, 3, 4, 5], 1, 0, 0)) > 0,
            "missing in the middle, but counted as evicted"
        );
        assert!(
            broken(6, 6, &found(&[0, 1, 2, 2, 3, 4], 0, 0, 0)) > 0,
            "doubled"
        );
        assert!(
            broken(6, 6, &found(&[1, 2, 3, 4, 5], 0, 0, 1)) > 0,
            "missing at the front"
        );
        assert!(
            broken(6, 6, &found(&[0, 1, 2, 3, 4, 5, 6], 0, 0, 0)) > 0,
            "never begun"
        );
        assert!(
            broken(9, 9, &found(&[3, 4, 5, 6, 7, 8], 4, 0, 0)) > 0,
            "counted as evicted, but found"
        );
    }

    #[test]
    fn a_living_process_may_evict_entries_between_those_that_were_read() {
        let broken = |evicted| {
            let mut tally = Tally::default();
            tally.judge_living(
                "child",
                &[Said {
                    begun: 9,
                    returned: 5,
                }],
                &found(&[2, 3, 6, 7], evicted, 0, 0),
            );
            tally.broken
        };
        assert_eq!(broken(4), 0);
        assert!(broken(3) > 0, "one more is missing than counted");
    }
}
