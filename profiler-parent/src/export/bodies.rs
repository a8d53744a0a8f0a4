//! The bodies of the requests that carry a profile to an engine.
//!
//! Written by the encoders of engines, taken by the file of an export and by a sender. Invariant: an
//! encoder gives the same bodies, in the same order, for the same profile.

use super::ExportError;

/// What a body is, which decides where it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// An `ExportTraceServiceRequest` of OTLP.
    OtlpTraces,
    /// An `ExportMetricsServiceRequest` of OTLP.
    OtlpMetrics,
    /// An `ExportProfilesServiceRequest` of OTLP.
    OtlpProfiles,
    /// A profile of pprof of one process.
    Pprof {
        /// What tells the process apart from others.
        labels: Vec<(&'static str, String)>,
    },
}

/// The body of one request.
#[derive(Debug)]
pub(crate) struct EncodedBody<'b> {
    /// What it is.
    pub(crate) kind: BodyKind,
    /// The bytes, not compressed.
    pub(crate) bytes: &'b [u8],
}

/// A receiver of bodies.
pub(crate) trait BodySink {
    /// Takes a body.
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
