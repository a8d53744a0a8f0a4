//! What the encoders of engines pass on: the bodies of requests, one after the other.
//!
//! Called by the encoders, implemented by the pusher and by the exports to files. Invariants: a
//! body is bounded, so memory is; the bodies of one profile are the same whenever it is encoded, so
//! a body is identified by its number.

use super::ExportError;
use super::fleet_table::FleetTable;

/// Bytes of a body before compression, unless a destination wants another limit.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// What a body is. It decides about the path and the headers of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// An `ExportTraceServiceRequest` in protobuf.
    OtlpTraces,
    /// An `ExportMetricsServiceRequest` in protobuf.
    OtlpMetrics,
    /// An `ExportProfilesServiceRequest` in protobuf.
    OtlpProfiles,
    /// A profile in the format pprof.
    Pprof(PprofSeries),
    /// Rows for a table, each a JSON object in a line.
    ClickHouseRows {
        /// The table.
        table: FleetTable,
    },
}

impl BodyKind {
    /// The table, if the body has rows of one.
    pub const fn table(&self) -> Option<FleetTable> {
        match self {
            Self::ClickHouseRows { table } => Some(*table),
            _ => None,
        }
    }
}

/// Which series a pprof profile belongs to, and the time that it covers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PprofSeries {
    /// The name of the service.
    pub service: String,
    /// Further labels, by name.
    pub labels: Vec<(&'static str, String)>,
    /// Nanoseconds since the Unix epoch.
    pub from_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub until_ns: u64,
}

/// One request's body, not compressed.
#[derive(Clone, Debug)]
pub struct EncodedBody<'b> {
    /// What it is.
    pub kind: BodyKind,
    /// Its bytes.
    pub bytes: &'b [u8],
}

/// A receiver of bodies.
pub trait BodySink {
    /// Takes a body. An error ends the encoding.
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError>;
}

/// How an encoder divides what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLimit {
    /// Each body is a request of at most this number of bytes. A body with a single item may be
    /// larger.
    Bytes(usize),
    /// The bodies are the parts of one request: appended to each other, they are this request.
    OneRequest,
}
