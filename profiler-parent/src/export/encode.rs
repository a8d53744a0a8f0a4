//! A profile as the bodies of requests to an engine.
//!
//! Called by the pusher. Invariant: the same profile and labels give the same bodies in the same
//! order, so a body is identified by its profile and its number. A change of what is written also
//! increases `push::batch::ENCODER_VERSION`.

use std::path::Path;

use super::bodies::{BodyLimit, BodySink};
use super::otlp::{self, Signal};
use super::recording::Recording;
use super::{ExportError, ExportOptions, FleetLabels, Target, clickhouse, pprof_bodies};
use crate::work::WorkListener;

/// What an engine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    /// Spans, as OTLP.
    OtlpTraces,
    /// Counters and losses, as OTLP.
    OtlpMetrics,
    /// Samples, as OTLP.
    OtlpProfiles,
    /// Samples, as pprof: a body for each process.
    Pprof,
    /// Rows for ClickHouse.
    ClickHouseRows,
}

impl Encoding {
    const fn target(self) -> Target {
        match self {
            Self::OtlpTraces => Target::OtlpTraces,
            Self::OtlpMetrics => Target::OtlpMetrics,
            Self::OtlpProfiles => Target::OtlpProfiles,
            Self::Pprof => Target::Pprof,
            Self::ClickHouseRows => Target::ClickHouse,
        }
    }
}

/// How a profile is encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodeOptions<'l> {
    pub(crate) encoding: Encoding,
    pub(crate) labels: &'l FleetLabels,
    /// Whether to look up names for unnamed addresses in files of this machine. The bodies then
    /// depend on these files, too.
    pub(crate) names: bool,
    /// The length of a body, not compressed, about.
    pub(crate) most_bytes: usize,
}

/// Encodes the profile `from`, and passes the bodies to `sink`. Reads the
/// profile up to three times, and holds one thread, one body and, for OTLP, the numbers of all
/// spans.
///
/// # Errors
/// That of `sink`, or that the file is no profile.
pub(crate) fn encode(
    from: &Path,
    options: EncodeOptions<'_>,
    sink: &mut dyn BodySink,
) -> Result<(), ExportError> {
    let EncodeOptions {
        encoding,
        labels,
        names,
        most_bytes,
    } = options;
    let export = ExportOptions::to(encoding.target()).names(names);
    let recording = Recording::open(from, &export, labels, WorkListener::default())?;
    let limit = BodyLimit::Bytes(most_bytes);
    match encoding {
        Encoding::OtlpTraces => otlp::encode(&recording, Signal::Traces, limit, sink),
        Encoding::OtlpMetrics => otlp::encode(&recording, Signal::Metrics, limit, sink),
        Encoding::OtlpProfiles => otlp::encode(&recording, Signal::Profiles, limit, sink),
        Encoding::Pprof => pprof_bodies::encode(&recording, most_bytes, sink),
        Encoding::ClickHouseRows => {
            let identity = clickhouse::BatchIdentity::of(recording.survey(), labels);
            clickhouse::encode(&recording, &identity, most_bytes, sink)
        }
    }
    .map(drop)
}
