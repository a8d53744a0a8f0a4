//! What pushers have sent and lost since the start of the session, by destination.
//!
//! One per session. Read by the metrics, and by captures for the profile's log. The room of pushers
//! is above this one, so each pusher lists itself here as a [`PushSource`]. Invariants: the numbers
//! of a pusher that has ended stay; the destinations with series of their own are limited, and
//! further ones are in the series `other`; a source is asked and dropped on the thread of a reading
//! or of the end of its pusher, and must not wait.

mod numbers;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numbers::DestinationName;
pub use numbers::{CaptureSum, DestinationRow, DestinationSum, PushOutcomes, PushReading};

use crate::process_table::session_sums::{BoundedSums, Sum};

/// The most destinations that have series of their own.
pub const MAX_DESTINATIONS: usize = 20;

/// The numbers of a pusher. All but those of what waits only grow.
#[derive(Clone, Debug, Default)]
pub struct PushNumbers {
    /// What was captured.
    pub captures: CaptureSum,
    /// The bytes of its spool.
    pub spool_bytes: u64,
    /// Batches that wait at its end stay in the spool. Otherwise they are lost then.
    pub keeps_waiting: bool,
    /// What each destination has got.
    pub destinations: Vec<DestinationNumbers>,
}

/// The numbers of a destination of a pusher.
#[derive(Clone, Debug, Default)]
pub struct DestinationNumbers {
    /// Its address, without secrets.
    pub address: String,
    /// Batches that wait for the destination.
    pub waiting_batches: u64,
    /// The entries in these batches.
    pub waiting_entries: u64,
    /// What was sent and lost so far.
    pub sum: DestinationSum,
}

/// A pusher, as the metrics see it.
pub trait PushSource: fmt::Debug + Send + Sync {
    /// Its numbers so far.
    fn numbers(&self) -> PushNumbers;
}

/// The number of a pusher in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PusherNumber(u64);

/// The sums over all pushers of a session. See the head of this file.
#[derive(Debug, Default)]
pub struct PushSums(Mutex<ListedPushers>);

#[derive(Debug)]
struct ListedPushers {
    next: PusherNumber,
    present: BTreeMap<PusherNumber, Arc<dyn PushSource>>,
    /// The captures of pushers that have ended.
    captures: CaptureSum,
    destinations: BoundedSums<PusherNumber, DestinationName, DestinationSum>,
}

impl Default for ListedPushers {
    fn default() -> Self {
        Self {
            next: PusherNumber::default(),
            present: BTreeMap::new(),
            captures: CaptureSum::default(),
            destinations: BoundedSums::new(MAX_DESTINATIONS),
        }
    }
}

/// A listed pusher. Dropped at its end; its numbers are kept then.
#[derive(Debug)]
pub struct ListedPusher {
    sums: Arc<PushSums>,
    number: PusherNumber,
}

impl Drop for ListedPusher {
    fn drop(&mut self) {
        // Dropped without the lock: this may be the last user of the spool.
        drop(self.sums.lock().end(self.number));
    }
}

impl PushSums {
    fn lock(&self) -> MutexGuard<'_, ListedPushers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a pusher.
    pub fn list(self: &Arc<Self>, source: Arc<dyn PushSource>) -> ListedPusher {
        let mut listed = self.lock();
        let number = listed.next;
        listed.next = PusherNumber(number.0.saturating_add(1));
        listed.present.insert(number, source);
        let sums = Arc::clone(self);
        ListedPusher { sums, number }
    }

    /// The present numbers; `None` if there has been no pusher.
    pub fn read(&self) -> Option<PushReading> {
        let mut listed = self.lock();
        (listed.next > PusherNumber::default()).then(|| listed.read())
    }
}

impl ListedPushers {
    fn read(&mut self) -> PushReading {
        let mut captures = self.captures;
        let mut spool_bytes = 0_u64;
        let mut waiting = BTreeMap::<DestinationName, u64>::new();
        for (number, source) in &self.present {
            let numbers = source.numbers();
            captures.add(&numbers.captures);
            spool_bytes = spool_bytes.saturating_add(numbers.spool_bytes);
            let rows = rows_of(&numbers);
            self.destinations
                .read(number, rows.iter().map(|(name, sum)| (name, sum)));
            for ((name, _), destination) in rows.into_iter().zip(&numbers.destinations) {
                let batches = waiting.entry(name).or_default();
                *batches = batches.saturating_add(destination.waiting_batches);
            }
        }
        PushReading {
            captures,
            spool_bytes,
            destinations: self.destination_rows(waiting),
        }
    }

    fn destination_rows(&self, mut waiting: BTreeMap<DestinationName, u64>) -> Vec<DestinationRow> {
        let shown = self.destinations.show();
        let mut rows: Vec<DestinationRow> = shown
            .own
            .into_iter()
            .map(|(name, sum)| DestinationRow {
                waiting_batches: waiting.remove(&name).unwrap_or_default(),
                name,
                sum,
            })
            .collect();
        rows.extend(shown.other.map(|sum| DestinationRow {
            name: DestinationName::other(),
            waiting_batches: waiting.values().copied().fold(0, u64::saturating_add),
            sum,
        }));
        rows
    }

    /// Keeps the numbers of a pusher that ends, and returns the pusher.
    fn end(&mut self, number: PusherNumber) -> Option<Arc<dyn PushSource>> {
        let source = self.present.remove(&number)?;
        let numbers = source.numbers();
        self.captures.add(&numbers.captures);
        let mut rows = rows_of(&numbers);
        for ((_, sum), destination) in rows.iter_mut().zip(&numbers.destinations) {
            let DestinationNumbers {
                waiting_batches,
                waiting_entries,
                ..
            } = *destination;
            if numbers.keeps_waiting {
                sum.left_batches = waiting_batches;
            } else {
                sum.batches.lost = sum.batches.lost.saturating_add(waiting_batches);
                sum.entries.lost = sum.entries.lost.saturating_add(waiting_entries);
            }
        }
        self.destinations
            .finish(&number, rows.iter().map(|(name, sum)| (name, sum)));
        Some(source)
    }
}

fn rows_of(numbers: &PushNumbers) -> Vec<(DestinationName, DestinationSum)> {
    let rows = numbers.destinations.iter();
    rows.map(|one| (DestinationName::new(&one.address), one.sum))
        .collect()
}
