//! The sampler's entries for the whole process, once per tick: counters, and the costs of the tick.
//!
//! ```text
//! counters  per counter: cell, value (signed), how often it was changed
//! overhead  nanoseconds of processor time: waiting for locks, counters, threads, all, signal
//!           handlers; the interval in force
//! ```
//!
//! Values are absolute, so that an evicted entry does not affect later ones. An entry contains only
//! counters that changed since the previous tick.

use super::{DamagedEntry, Words};
use crate::ids::CounterIndex;
use crate::time::Timestamp;

/// One counter at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterValue {
    /// The counter's cell.
    pub cell: CounterIndex,
    /// Its value since the session started.
    pub value: i64,
    /// How often it was changed since the session started.
    pub number: u64,
}

/// Bytes of one counter in an entry.
pub(crate) const COUNTER_VALUE_BYTES: usize = 24;

/// The values of counters at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountersEntry<'a> {
    /// The instant of the reading.
    pub at: Timestamp,
    values: &'a [u8],
}

impl<'a> CountersEntry<'a> {
    pub(super) fn decode(at: Timestamp, body: &'a [u8]) -> Result<Self, DamagedEntry> {
        if !body.len().is_multiple_of(COUNTER_VALUE_BYTES) {
            return Err(DamagedEntry("counters"));
        }
        Ok(Self { at, values: body })
    }

    /// The counters in it.
    pub fn values(self) -> impl Iterator<Item = CounterValue> + 'a {
        self.values
            .chunks_exact(COUNTER_VALUE_BYTES)
            .filter_map(|bytes| {
                let mut words = Words { bytes };
                let cell = u32::try_from(words.next("cell").ok()?).ok()?;
                let value = words.next("value").ok()?.cast_signed();
                Some(CounterValue {
                    cell: CounterIndex::new(cell),
                    value,
                    number: words.next("number").ok()?,
                })
            })
    }
}

/// Writes a counter to the start of `room`.
pub(crate) fn write_counter(room: &mut [u8; COUNTER_VALUE_BYTES], counter: CounterValue) {
    let words = [
        u64::from(counter.cell.get()),
        counter.value.cast_unsigned(),
        counter.number,
    ];
    for (place, word) in room.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
}

/// The costs of sampling at one tick of the sampler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OverheadEntry {
    /// When the tick began.
    pub at: Timestamp,
    /// Waiting for locks, in nanoseconds of the sampler's thread's processor time.
    pub locking_ns: u64,
    /// Reading counters.
    pub counters_ns: u64,
    /// Sampling threads.
    pub threads_ns: u64,
    /// The whole tick.
    pub total_ns: u64,
    /// Time of the signal handlers that took samples since the previous tick, without the system's
    /// part of a signal.
    pub handlers_ns: u64,
    /// The interval in force: processor time between two samples of a thread.
    pub interval_ns: u64,
}

/// Bytes of the body of an overhead entry.
const OVERHEAD_BYTES: usize = 48;

impl OverheadEntry {
    pub(super) fn decode(at: Timestamp, body: &[u8]) -> Result<Self, DamagedEntry> {
        let mut words = Words { bytes: body };
        let mut next = || words.next("overhead");
        Ok(Self {
            at,
            locking_ns: next()?,
            counters_ns: next()?,
            threads_ns: next()?,
            total_ns: next()?,
            handlers_ns: next()?,
            interval_ns: next()?,
        })
    }

    /// Encodes the entry's body.
    pub(crate) fn encode(&self) -> [u8; OVERHEAD_BYTES] {
        let words = [
            self.locking_ns,
            self.counters_ns,
            self.threads_ns,
            self.total_ns,
            self.handlers_ns,
            self.interval_ns,
        ];
        let mut body = [0; OVERHEAD_BYTES];
        for (place, word) in body.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_survive_and_half_a_counter_is_damage() {
        let counter = CounterValue {
            cell: CounterIndex::new(7),
            value: -3,
            number: 9,
        };
        let mut room = [0; COUNTER_VALUE_BYTES];
        write_counter(&mut room, counter);
        let entry = CountersEntry::decode(Timestamp::from_raw(1), &room).unwrap();
        assert_eq!(entry.values().collect::<Vec<_>>(), [counter]);
        assert!(CountersEntry::decode(Timestamp::ZERO, &room[1..]).is_err());
    }

    #[test]
    fn overhead_survives() {
        let at = Timestamp::from_raw(4);
        let entry = OverheadEntry {
            at,
            locking_ns: 1,
            counters_ns: 2,
            threads_ns: 3,
            total_ns: 6,
            handlers_ns: 7,
            interval_ns: 8,
        };
        assert_eq!(OverheadEntry::decode(at, &entry.encode()), Ok(entry));
        assert!(OverheadEntry::decode(at, &[0; OVERHEAD_BYTES - 1]).is_err());
    }
}
