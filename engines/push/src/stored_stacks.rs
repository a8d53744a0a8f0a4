//! The rows of stacks that a store has, so that each is sent once.
//!
//! Used by the sender, which has one for its destination. A row of `profiler_stacks` contains the
//! function names of a stack, a day and a host, and does not depend on the batch, so a store needs
//! each row only once. Otherwise, each batch would repeat the names of all its stacks: half of the
//! bytes of a recording of Python. Invariants: a row counts as stored only after the store has
//! accepted a body with it; memory is bounded; a row may be sent again at any time, because the
//! store reduces equal rows to one; after each outage of the store, all rows are sent again.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use profiler_export::bodies::BodyKind;
use profiler_export::clickhouse::FleetTable;

/// The most rows that are remembered: about 2 MiB.
const MAX_ROWS: usize = 1 << 17;

/// The rows of stacks that a store has. Keeps a 64-bit hash of each row, with random keys. Among
/// 100,000 rows, two have the same hash with a probability of 1 in 4 billion.
#[derive(Debug, Default)]
pub(super) struct StoredStacks {
    hashes: HashSet<u64>,
    keys: RandomState,
}

impl StoredStacks {
    /// The rows of a body that the store may not have. Returns bodies of other tables unchanged.
    pub(super) fn missing<'b>(&self, kind: &BodyKind, body: &'b [u8]) -> Cow<'b, [u8]> {
        if !has_stacks(kind) || self.hashes.is_empty() {
            return Cow::Borrowed(body);
        }
        let is_missing = |row: &&[u8]| !self.hashes.contains(&self.keys.hash_one(row));
        Cow::Owned(
            rows_of(body)
                .filter(is_missing)
                .collect::<Vec<_>>()
                .concat(),
        )
    }

    /// Forgets all rows. To be called when the store may have lost some: it does not answer, as
    /// during a restart, or it refuses a body.
    pub(super) fn forget(&mut self) {
        self.hashes.clear();
    }

    /// Remembers the rows of a body that the store has accepted. If there would be too many rows,
    /// forgets all earlier ones.
    pub(super) fn note(&mut self, kind: &BodyKind, body: &[u8]) {
        if !has_stacks(kind) {
            return;
        }
        let Self { hashes, keys } = self;
        let new = rows_of(body).map(|row| keys.hash_one(row));
        if hashes.len() + rows_of(body).count() > MAX_ROWS {
            hashes.clear();
        }
        hashes.extend(new.take(MAX_ROWS));
    }
}

fn has_stacks(kind: &BodyKind) -> bool {
    kind.table() == Some(FleetTable::Stacks)
}

/// The rows of a body, each with the end of its line.
fn rows_of(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split_inclusive(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACKS: BodyKind = BodyKind::ClickHouseRows {
        table: FleetTable::Stacks,
    };

    #[test]
    fn a_row_that_the_store_has_is_left_out() {
        let mut stored = StoredStacks::default();
        assert_eq!(&*stored.missing(&STACKS, b"1\n2\n"), b"1\n2\n");
        stored.note(&STACKS, b"1\n2\n");
        assert_eq!(&*stored.missing(&STACKS, b"2\n3\n1\n4\n"), b"3\n4\n");
        assert_eq!(&*stored.missing(&STACKS, b"2\n1\n"), b"");
    }

    #[test]
    fn the_rows_of_other_tables_are_sent_each_time() {
        let mut stored = StoredStacks::default();
        for table in FleetTable::ALL {
            if table == FleetTable::Stacks {
                continue;
            }
            let kind = BodyKind::ClickHouseRows { table };
            stored.note(&STACKS, b"1\n");
            stored.note(&kind, b"1\n");
            assert_eq!(&*stored.missing(&kind, b"1\n"), b"1\n");
        }
        stored.note(&BodyKind::OtlpTraces, b"1\n");
        assert_eq!(&*stored.missing(&BodyKind::OtlpTraces, b"1\n"), b"1\n");
    }

    #[test]
    fn the_number_of_rows_is_bounded() {
        let mut stored = StoredStacks::default();
        let body = |from: usize| {
            let rows = (from..from + MAX_ROWS / 2).map(|row| format!("{row}\n"));
            rows.collect::<String>().into_bytes()
        };
        for half in 0..5 {
            stored.note(&STACKS, &body(half * MAX_ROWS / 2));
            assert!(stored.hashes.len() <= MAX_ROWS);
        }
        assert_eq!(
            &*stored.missing(&STACKS, &body(4 * MAX_ROWS / 2)),
            b"",
            "the latest body is remembered"
        );
    }
}
