//! A chunk manager's reports about its memory, and the folding of two reports into one.
//!
//! Made by the maintenance thread, folded by `profiler-child` while no request waits, consumed by
//! the parent's global controller. The idea is Gecko's
//! `ProfileBufferControlledChunkManager::Update`, without three of its defects: here a report lists
//! exactly the chunks released since the previous one, "nothing released is left" clears the list,
//! and every byte that the process holds is counted.
//!
//! Law (property-tested): folding `a` then `b` gives a report that has the same meaning to the
//! receiver as `a` followed by `b`.

use serde::{Deserialize, Serialize};

use crate::ids::ByteLimit;
use crate::time::Timestamp;

/// A chunk that became released since the previous report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedChunk {
    /// When its last entry had been written. Identifies the chunk within its process.
    pub done: Timestamp,
    /// Bytes it occupies.
    pub bytes: u64,
}

/// One report of a chunk manager.
///
/// `unreleased_bytes + released_bytes` is everything that the process holds of its allowance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {
    /// Bytes that are not in released chunks: header, definitions, tables, chunks being written,
    /// chunks made ready or recycled.
    pub unreleased_bytes: u64,
    /// Bytes in released chunks.
    pub released_bytes: u64,
    /// Done time of the oldest released chunk, if there is one.
    pub oldest_done: Option<Timestamp>,
    /// Chunks released since the previous report that still exist, oldest first.
    pub newly_released: Vec<ReleasedChunk>,
    /// Bytes that the process could have used since the previous report if its allowance had been
    /// larger.
    pub wanted_bytes: u64,
    /// The allowance in effect when the manager made this report.
    pub allowance: ByteLimit,
}

impl Update {
    /// Maximum length of a report's list; beyond it the oldest neighbours are merged.
    ///
    /// 1,024 rows are at most 20 KiB on the wire, well below the message cap.
    pub const MAX_LISTED: usize = 1024;

    /// All bytes the process holds.
    pub const fn held_bytes(&self) -> u64 {
        self.unreleased_bytes.saturating_add(self.released_bytes)
    }

    fn fold(&mut self, newer: Self) {
        self.unreleased_bytes = newer.unreleased_bytes;
        self.released_bytes = newer.released_bytes;
        self.oldest_done = newer.oldest_done;
        self.allowance = newer.allowance;
        self.wanted_bytes = self.wanted_bytes.saturating_add(newer.wanted_bytes);
        match newer.oldest_done {
            Some(oldest) => self.newly_released.retain(|chunk| chunk.done >= oldest),
            None => self.newly_released.clear(),
        }
        for chunk in newer.newly_released {
            insert_by_done(&mut self.newly_released, chunk);
        }
        self.limit_list();
    }

    /// Merges the oldest neighbours until the list has at most [`Self::MAX_LISTED`] rows.
    /// A merged row keeps the later done time, so destroying "at or before" it frees both.
    pub fn limit_list(&mut self) {
        let excess = self.newly_released.len().saturating_sub(Self::MAX_LISTED);
        if excess == 0 {
            return;
        }
        let mut rest = self.newly_released.split_off(excess + 1);
        let done = self
            .newly_released
            .last()
            .map_or(Timestamp::ZERO, |chunk| chunk.done);
        let bytes = self.newly_released.iter().map(|chunk| chunk.bytes).sum();
        self.newly_released.clear();
        self.newly_released.push(ReleasedChunk { done, bytes });
        self.newly_released.append(&mut rest);
    }
}

/// Inserts a chunk into a list ordered by done time, after all chunks of the same time.
fn insert_by_done(list: &mut Vec<ReleasedChunk>, chunk: ReleasedChunk) {
    let at = list.partition_point(|listed| listed.done <= chunk.done);
    list.insert(at, chunk);
}

/// The pending news: nothing, a report, or that there will be no more reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ManagerUpdate {
    /// Nothing pending.
    #[default]
    None,
    /// The folded reports so far.
    Changed(Update),
    /// The manager is gone; only another `Final` may follow.
    Final,
}

impl ManagerUpdate {
    /// Combines `self` and `newer` into one update with the same meaning to the receiver.
    pub fn fold(&mut self, newer: Self) {
        match (&mut *self, newer) {
            (Self::Final, _) | (_, Self::None) => {}
            (_, Self::Final) => *self = Self::Final,
            (Self::None, newer) => *self = newer,
            (Self::Changed(mine), Self::Changed(newer)) => mine.fold(newer),
        }
    }

    /// Takes the pending news, leaving nothing; `Final` stays, because it is permanent.
    pub fn take(&mut self) -> Self {
        match self {
            Self::Final => Self::Final,
            _ => std::mem::take(self),
        }
    }

    /// Whether anything is pending.
    pub const fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

#[cfg(test)]
mod tests;
