//! The rows of all tables while they are collected into bodies.
//!
//! Invariants: the rows of a table are numbered in the order in which they are written; the bytes
//! of all bodies together are bounded by the length of the profile.

use profiler_json::JsonWriter;

use super::FleetTable;
use super::date::civil_date;
use super::identity::BatchIdentity;
use crate::ExportError;
use crate::bodies::{BodyKind, BodySink, EncodedBody};
use profiler_files::output::too_long;

pub(super) const NS_OF_DAY: i64 = 86_400_000_000_000;
/// The last day that ClickHouse's `Date` of 16 bits can hold.
const LAST_DAY: i64 = 65_535;

/// The writer of one row: the columns of a table as entries of an object.
pub(super) type Row = JsonWriter<Vec<u8>>;

/// The rows of all tables. See the [module](self).
pub(super) struct Rows<'r> {
    pub(super) identity: &'r BatchIdentity,
    most_bytes: usize,
    /// The bytes that may still be written.
    left: u64,
    sink: &'r mut dyn BodySink,
    tables: [TableRows; FleetTable::ALL.len()],
    row: Row,
}

/// The body of one table.
#[derive(Debug, Default)]
struct TableRows {
    body: Vec<u8>,
    /// The number of its rows, including those that the sink has taken.
    count: u64,
}

impl<'r> Rows<'r> {
    pub(super) fn new(
        identity: &'r BatchIdentity,
        most_bytes: usize,
        left: u64,
        sink: &'r mut dyn BodySink,
    ) -> Self {
        Self {
            identity,
            most_bytes,
            left,
            sink,
            tables: Default::default(),
            row: JsonWriter::new(Vec::new()),
        }
    }

    /// Adds a row about the instant `unix_ns`, which decides its day.
    pub(super) fn add(
        &mut self,
        table: FleetTable,
        unix_ns: i64,
        columns: impl FnOnce(&mut Row),
    ) -> Result<(), ExportError> {
        self.row.begin_object();
        // Stacks belong to no batch: the same stack of another batch is the same row.
        if table == FleetTable::Stacks {
            columns(&mut self.row);
            self.row.entry_str("day", &day(unix_ns));
            self.row.entry_str("host", &self.identity.host);
        } else {
            self.row.entry_str("day", &day(unix_ns));
            self.identify(table);
            columns(&mut self.row);
        }
        self.row.end_object();
        let text = self.row.take_text();
        self.append(table, &text)
    }

    /// Writes the columns that identify a row.
    fn identify(&mut self, table: FleetTable) {
        let Self { identity, row, .. } = self;
        row.entry_str("service", &identity.service);
        row.entry_str("version", &identity.version);
        row.entry_str("host", &identity.host);
        row.entry_u64("session", identity.session.unsigned_abs());
        row.entry_u64("batch", identity.batch);
        let count = self.tables.get(table.index()).map_or(0, |rows| rows.count);
        row.entry_u64("seq", count);
    }

    fn append(&mut self, table: FleetTable, text: &str) -> Result<(), ExportError> {
        let length = text.len() + 1;
        self.left = self
            .left
            .checked_sub(length as u64)
            .ok_or_else(|| ExportError::Write(too_long()))?;
        let Some(rows) = self.tables.get_mut(table.index()) else {
            return Ok(());
        };
        if rows.body.len() + length > self.most_bytes {
            rows.pass(table, self.sink)?;
        }
        rows.body.extend_from_slice(text.as_bytes());
        rows.body.push(b'\n');
        rows.count += 1;
        Ok(())
    }

    /// Passes the last body of each table on.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        for (table, rows) in FleetTable::ALL.into_iter().zip(&mut self.tables) {
            rows.pass(table, self.sink)?;
        }
        Ok(())
    }
}

impl TableRows {
    fn pass(&mut self, table: FleetTable, sink: &mut dyn BodySink) -> Result<(), ExportError> {
        if self.body.is_empty() {
            return Ok(());
        }
        if table == FleetTable::Stacks {
            self.sort();
        }
        let kind = BodyKind::ClickHouseRows { table };
        sink.body(EncodedBody {
            kind,
            bytes: &self.body,
        })?;
        self.body.clear();
        Ok(())
    }

    /// Sorts the rows. Stacks begin with their functions, so each is like its neighbour, and the
    /// body takes a quarter less space when it is compressed.
    fn sort(&mut self) {
        let mut lines: Vec<&[u8]> = self.body.split_inclusive(|byte| *byte == b'\n').collect();
        lines.sort_unstable();
        self.body = lines.concat();
    }
}

/// The day of an instant in UTC, as ClickHouse reads it.
pub(super) fn day(unix_ns: i64) -> String {
    let days = unix_ns.div_euclid(NS_OF_DAY).clamp(0, LAST_DAY);
    let (year, month, day) = civil_date(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// An instant as the column of a table; instants before 1970 become 1970.
pub(super) const fn instant(unix_ns: i64) -> u64 {
    if unix_ns < 0 {
        0
    } else {
        unix_ns.unsigned_abs()
    }
}
