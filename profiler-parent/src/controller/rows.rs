//! The released chunks of one process that the parent knows of, oldest first.
//!
//! Used by `account`. Invariants: rows are ordered by done time; `bytes` is the sum of all rows; a
//! row enters and leaves once, so the cost of a report is proportional to the chunks that it adds
//! and removes, not to the chunks that the process keeps.

use std::collections::VecDeque;

use profiler_core::internal::manager::update::ReleasedChunk;
use profiler_core::time::Timestamp;

/// The released chunks of one process. See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: VecDeque<ReleasedChunk>,
    bytes: u64,
}

impl Rows {
    /// Makes rows from chunks in any order.
    pub(super) fn new(mut chunks: Vec<ReleasedChunk>) -> Self {
        chunks.sort_by_key(|chunk| chunk.done);
        let bytes = chunks
            .iter()
            .fold(0, |sum: u64, chunk| sum.saturating_add(chunk.bytes));
        Self {
            rows: chunks.into(),
            bytes,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Option<&ReleasedChunk> {
        self.rows.get(index)
    }

    pub(super) fn first(&self) -> Option<&ReleasedChunk> {
        self.rows.front()
    }

    pub(super) fn last(&self) -> Option<&ReleasedChunk> {
        self.rows.back()
    }

    /// Adds a chunk; it is the last among chunks of equal time.
    pub(super) fn insert(&mut self, chunk: ReleasedChunk) {
        self.bytes = self.bytes.saturating_add(chunk.bytes);
        if self.rows.back().is_none_or(|last| last.done <= chunk.done) {
            self.rows.push_back(chunk);
            return;
        }
        let at = self.rows.partition_point(|row| row.done <= chunk.done);
        self.rows.insert(at, chunk);
    }

    /// Drops the rows before `oldest`, the oldest chunk left.
    pub(super) fn drop_before(&mut self, oldest: Option<Timestamp>) {
        self.drop_while(|chunk| oldest.is_none_or(|oldest| chunk.done < oldest));
    }

    /// Drops the rows that a destruction of all chunks "at or before" removes.
    pub(super) fn drop_at_or_before(&mut self, done: Timestamp) {
        self.drop_while(|chunk| chunk.done <= done);
    }

    fn drop_while(&mut self, is_gone: impl Fn(&ReleasedChunk) -> bool) {
        while let Some(gone) = self.rows.pop_front_if(|chunk| is_gone(chunk)) {
            self.bytes = self.bytes.saturating_sub(gone.bytes);
        }
    }

    /// Makes the rows sum up to `bytes`, even if chunks were merged, lost or misreported: missing
    /// bytes are added as chunks of the age `oldest`, surplus bytes are removed from the oldest
    /// rows.
    pub(super) fn sum_up_to(&mut self, bytes: u64, oldest: Option<Timestamp>) {
        if let Some(done) = oldest.filter(|_| self.bytes < bytes) {
            self.rows.push_front(ReleasedChunk {
                done,
                bytes: bytes - self.bytes,
            });
            self.bytes = bytes;
        }
        while self.bytes > bytes {
            let excess = self.bytes - bytes;
            let Some(first) = self.rows.front_mut() else {
                return;
            };
            let less = first.bytes.min(excess);
            first.bytes -= less;
            self.bytes -= less;
            self.rows.pop_front_if(|chunk| chunk.bytes == 0);
        }
    }

    /// Merges the oldest neighbours until there are at most `most` rows. A merged row keeps the
    /// later done time, so destroying "at or before" it frees both.
    pub(super) fn limit(&mut self, most: usize) {
        while self.rows.len() > most.max(1) {
            let Some(first) = self.rows.pop_front() else {
                return;
            };
            if let Some(second) = self.rows.front_mut() {
                second.bytes = second.bytes.saturating_add(first.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(done: u64, bytes: u64) -> ReleasedChunk {
        ReleasedChunk {
            done: Timestamp::from_raw(done),
            bytes,
        }
    }

    fn rows(list: &[(u64, u64)]) -> Rows {
        Rows::new(
            list.iter()
                .map(|(done, bytes)| chunk(*done, *bytes))
                .collect(),
        )
    }

    fn all(rows: &Rows) -> Vec<(u64, u64)> {
        assert_eq!(
            rows.bytes,
            rows.rows.iter().map(|chunk| chunk.bytes).sum::<u64>()
        );
        rows.rows
            .iter()
            .map(|chunk| (chunk.done.raw(), chunk.bytes))
            .collect()
    }

    #[test]
    fn a_chunk_released_out_of_order_is_listed_by_its_done_time() {
        let mut rows = rows(&[(10, 1), (30, 3)]);
        rows.insert(chunk(20, 2));
        rows.insert(chunk(40, 4));
        assert_eq!(all(&rows), [(10, 1), (20, 2), (30, 3), (40, 4)]);
    }

    #[test]
    fn a_report_without_chunks_clears_the_list() {
        let mut rows = rows(&[(10, 1), (30, 3)]);
        rows.drop_before(Some(Timestamp::from_raw(30)));
        assert_eq!(all(&rows), [(30, 3)]);
        rows.drop_before(None);
        assert_eq!(all(&rows), []);
    }

    #[test]
    fn missing_bytes_become_an_oldest_row_and_surplus_bytes_are_removed() {
        let mut rows = rows(&[(10, 1), (30, 3)]);
        rows.sum_up_to(9, Some(Timestamp::from_raw(5)));
        assert_eq!(all(&rows), [(5, 5), (10, 1), (30, 3)]);
        rows.sum_up_to(2, Some(Timestamp::from_raw(5)));
        assert_eq!(all(&rows), [(30, 2)]);
    }

    #[test]
    fn merging_keeps_the_later_done_time_and_all_bytes() {
        let mut rows = rows(&[(10, 1), (20, 2), (30, 3)]);
        rows.limit(2);
        assert_eq!(all(&rows), [(20, 3), (30, 3)]);
    }
}
