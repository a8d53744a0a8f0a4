//! The bodies of requests that encoders for engines produce.
//!
//! An encoder reads a recorded profile and passes bodies to a [`BodySink`]: the files of `profiler
//! export`, or the sender of a push. Invariants: an encoder passes the same bodies for the same
//! profile and identity; a body has at most the bytes that the encoder is called with, unless one
//! row or message alone is longer.

use super::ExportError;
use super::clickhouse::FleetTable;

/// Bytes of a body before compression, unless a destination wants another limit.
pub(crate) const MOST_BODY_BYTES: usize = 4 << 20;

/// The kind of a body, which decides the path and the headers of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// Rows of a table of ClickHouse, in the format `JSONEachRow`.
    ClickHouseRows {
        /// The table.
        table: FleetTable,
    },
}

impl BodyKind {
    /// The table, if the body has rows of one.
    pub(crate) const fn table(&self) -> Option<FleetTable> {
        match self {
            Self::ClickHouseRows { table } => Some(*table),
        }
    }
}

/// The body of one request.
#[derive(Debug)]
pub(crate) struct EncodedBody<'b> {
    /// The kind of its content.
    pub(crate) kind: BodyKind,
    /// The content, not compressed.
    pub(crate) bytes: &'b [u8],
}

/// A receiver of bodies.
pub(crate) trait BodySink {
    /// Takes the next body.
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError>;
}
