//! Exact entry counts of a thread: recorded, delivered, outside, evicted, dropped, unfinished.
//!
//! The record path counts drops in the thread's row of the pool. The code that destroys a chunk
//! counts its entries as evicted there, and the reader adds up. Invariant, exact per thread:
//! `recorded = delivered + outside + evicted + dropped + unfinished`.

use serde::{Deserialize, Serialize};

/// The reason why an entry was dropped instead of being recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
#[non_exhaustive]
pub enum DropReason {
    /// No chunk was ready and none was available without waiting.
    Full = 0,
    /// The entry is larger than the largest entry allowed.
    Oversize = 1,
    /// The process's allowance is used up (or the file system of a pool in a file is full), and the
    /// process holds nothing that it could destroy.
    NoBudget = 2,
    /// There is no room left for the name, schema or thread that the entry refers to.
    NoDefinitions = 3,
    /// The session was paused.
    Paused = 4,
    /// The entry was recorded while the same thread was recording another one
    /// (from a signal handler, or from a payload's own serialisation).
    Reentrant = 5,
    /// The payload cannot be encoded: its serialisation failed or panicked.
    Unencodable = 6,
}

impl DropReason {
    /// The number of reasons.
    pub const COUNT: usize = 7;

    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Full,
        Self::Oversize,
        Self::NoBudget,
        Self::NoDefinitions,
        Self::Paused,
        Self::Reentrant,
        Self::Unencodable,
    ];

    /// The reason in a few words, as shown in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Oversize => "oversize",
            Self::NoBudget => "no budget",
            Self::NoDefinitions => "no definitions space",
            Self::Paused => "paused",
            Self::Reentrant => "reentrant",
            Self::Unencodable => "unencodable",
        }
    }
}

/// The number of dropped entries, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops([u64; DropReason::COUNT]);

impl Drops {
    /// Drops from counts in the order of [`DropReason::ALL`].
    pub const fn new(counts: [u64; DropReason::COUNT]) -> Self {
        Self(counts)
    }

    /// Entries dropped for this reason.
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or(0)
    }

    /// Entries dropped for any reason.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The reasons that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL
            .into_iter()
            .map(|reason| (reason, self.of(reason)))
            .filter(|(_, count)| *count > 0)
    }
}

impl std::ops::AddAssign for Drops {
    fn add_assign(&mut self, other: Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(count);
        }
    }
}

/// The entry counts of a thread or, added up, of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryCounts {
    /// Entries in the profile.
    pub delivered: u64,
    /// Entries that are not lost, but outside of the profile's range of time.
    pub outside: u64,
    /// Entries whose chunk was destroyed for newer ones.
    pub evicted: u64,
    /// Entries that were never written.
    pub dropped: Drops,
    /// Entries that were being written when the process died or was read; at most 1 per thread.
    pub unfinished: u64,
}

impl EntryCounts {
    /// All entries that the program tried to record during the session.
    pub fn recorded(&self) -> u64 {
        self.delivered
            .saturating_add(self.outside)
            .saturating_add(self.lost())
    }

    /// All entries that are lost, for any reason.
    pub fn lost(&self) -> u64 {
        self.evicted
            .saturating_add(self.dropped.total())
            .saturating_add(self.unfinished)
    }
}

impl std::ops::AddAssign for EntryCounts {
    fn add_assign(&mut self, other: Self) {
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.outside = self.outside.saturating_add(other.outside);
        self.evicted = self.evicted.saturating_add(other.evicted);
        self.dropped += other.dropped;
        self.unfinished = self.unfinished.saturating_add(other.unfinished);
    }
}
