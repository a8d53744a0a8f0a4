//! What the pushers of a session have sent, and what they could not send, by destination.
//!
//! Written by `push`, which is on a higher floor than its readers; read by captures, for the
//! profile's log. Invariants: the numbers of a pusher that has ended stay; memory is bounded by the
//! pushers that run and by [`MOST_ADDRESSES`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Limit on the addresses of which the numbers are kept after their pushers have ended.
const MOST_ADDRESSES: usize = 64;
/// Stands for the addresses beyond the limit.
const OTHER_ADDRESSES: &str = "other destinations";

/// The numbers of a destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PushTotals {
    /// Its address, which contains no secret.
    pub(crate) address: String,
    /// Batches that it has accepted.
    pub(crate) sent: BatchTotals,
    /// Batches that were removed before they were sent, because the spool was full.
    pub(crate) lost: BatchTotals,
    /// Batches of which it has refused a part, or that cannot be read.
    pub(crate) refused: BatchTotals,
    /// Batches that wait, or that waited when their pusher ended.
    pub(crate) waiting_batches: u64,
    /// Entries that were evicted before a batch contained them.
    pub(crate) missed_entries: u64,
    /// Captures that have failed. A later batch has their entries, as long as they are not missed.
    pub(crate) failed_captures: u64,
}

/// A number of batches, and of the entries in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BatchTotals {
    pub(crate) batches: u64,
    pub(crate) entries: u64,
}

impl BatchTotals {
    const fn add(&mut self, other: Self) {
        self.batches = self.batches.saturating_add(other.batches);
        self.entries = self.entries.saturating_add(other.entries);
    }
}

impl PushTotals {
    fn add(&mut self, other: &Self) {
        self.sent.add(other.sent);
        self.lost.add(other.lost);
        self.refused.add(other.refused);
        let sums = [
            (&mut self.waiting_batches, other.waiting_batches),
            (&mut self.missed_entries, other.missed_entries),
            (&mut self.failed_captures, other.failed_captures),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }

    /// What the destination has not got, in a sentence; `None` if it has everything, or if the rest
    /// waits.
    pub(crate) fn losses(&self) -> Option<String> {
        let batches = |BatchTotals { batches, entries }: BatchTotals, what: &str| {
            (batches > 0).then(|| format!("{batches} batches ({entries} entries) {what}"))
        };
        let missed = self.missed_entries;
        let parts = [
            batches(self.lost, "were lost because the spool was full"),
            batches(self.refused, "were refused"),
            (missed > 0).then(|| format!("{missed} entries were evicted before a capture")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let address = &self.address;
        (!parts.is_empty()).then(|| format!("pushing to {address}: {}", parts.join(", ")))
    }
}

/// The present numbers of a pusher.
pub(crate) trait PushProgress: fmt::Debug + Send + Sync {
    /// The numbers of each of its destinations.
    fn totals(&self) -> Vec<PushTotals>;
}

/// Identifies a pusher in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PusherNumber(u64);

/// The pushers of a session.
#[derive(Debug, Default)]
pub(crate) struct PushLedger(Mutex<LedgerEntries>);

#[derive(Debug, Default)]
struct LedgerEntries {
    running: Vec<(PusherNumber, Weak<dyn PushProgress>)>,
    ended: Vec<PushTotals>,
    next: u64,
}

impl PushLedger {
    fn lock(&self) -> MutexGuard<'_, LedgerEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg_attr(not(feature = "push"), allow(dead_code))] // there is no pusher
    /// A pusher begins.
    pub(crate) fn begin(&self, progress: Weak<dyn PushProgress>) -> PusherNumber {
        let mut entries = self.lock();
        let number = PusherNumber(entries.next);
        entries.next = number.0.saturating_add(1);
        entries.running.push((number, progress));
        number
    }

    #[cfg_attr(not(feature = "push"), allow(dead_code))] // there is no pusher
    /// A pusher ends with these numbers.
    pub(crate) fn end(&self, number: PusherNumber, totals: &[PushTotals]) {
        let mut entries = self.lock();
        entries.running.retain(|(running, _)| *running != number);
        add_all(&mut entries.ended, totals);
    }

    /// The numbers of each destination, summed over all pushers.
    pub(crate) fn totals(&self) -> Vec<PushTotals> {
        let entries = self.lock();
        let mut totals = entries.ended.clone();
        let running = entries.running.iter();
        let running: Vec<Arc<_>> = running.filter_map(|(_, weak)| weak.upgrade()).collect();
        // A pusher has locks of its own.
        drop(entries);
        for progress in running {
            add_all(&mut totals, &progress.totals());
        }
        totals
    }
}

fn add_all(totals: &mut Vec<PushTotals>, more: &[PushTotals]) {
    for one in more {
        let known = totals.iter_mut().find(|known| known.address == one.address);
        if let Some(known) = known {
            known.add(one);
            continue;
        }
        let is_full = totals.len() >= MOST_ADDRESSES && one.address != OTHER_ADDRESSES;
        let address = if is_full {
            OTHER_ADDRESSES
        } else {
            &one.address
        };
        let renamed = PushTotals {
            address: address.to_owned(),
            ..one.clone()
        };
        if is_full {
            add_all(totals, &[renamed]);
        } else {
            totals.push(renamed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Fixed(Vec<PushTotals>);

    impl PushProgress for Fixed {
        fn totals(&self) -> Vec<PushTotals> {
            self.0.clone()
        }
    }

    fn lost(address: &str, batches: u64) -> PushTotals {
        let lost = BatchTotals {
            batches,
            entries: 10 * batches,
        };
        PushTotals {
            address: address.to_owned(),
            lost,
            ..PushTotals::default()
        }
    }

    #[test]
    fn the_numbers_of_a_pusher_stay_after_its_end_and_count_once() {
        let ledger = PushLedger::default();
        let progress = Arc::new(Fixed(vec![lost("a", 1), lost("b", 2)]));
        let weak = Arc::downgrade(&progress);
        let number = ledger.begin(weak);
        assert_eq!(ledger.totals(), progress.totals());
        ledger.end(number, &progress.totals());
        assert_eq!(ledger.totals(), progress.totals());
        let next = Arc::new(Fixed(vec![lost("b", 4)]));
        let weak = Arc::downgrade(&next);
        ledger.begin(weak);
        assert_eq!(ledger.totals(), [lost("a", 1), lost("b", 6)]);
    }

    #[test]
    fn many_addresses_are_summed() {
        let ledger = PushLedger::default();
        for number in 0..200 {
            let progress = Arc::new(Fixed(Vec::new()));
            let weak = Arc::downgrade(&progress);
            let pusher = ledger.begin(weak);
            ledger.end(pusher, &[lost(&number.to_string(), 1)]);
        }
        let totals = ledger.totals();
        assert_eq!(totals.len(), MOST_ADDRESSES + 1);
        let sum: u64 = totals.iter().map(|one| one.lost.batches).sum();
        assert_eq!(sum, 200);
    }

    #[test]
    fn losses_are_a_sentence_and_what_waits_is_none() {
        let mut totals = lost("otlp+http://host", 3);
        totals.missed_entries = 7;
        assert_eq!(
            totals.losses().as_deref(),
            Some(
                "pushing to otlp+http://host: 3 batches (30 entries) were lost because the spool \
                 was full, 7 entries were evicted before a capture"
            )
        );
        let waits = PushTotals {
            waiting_batches: 9,
            ..PushTotals::default()
        };
        assert_eq!(waits.losses(), None);
    }
}
