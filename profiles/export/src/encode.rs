//! A profile as the bodies of requests to an engine.
//!
//! Called by the pusher. Invariants: the same profile and labels give the same bodies in the same
//! order, so a body is identified by its profile and its number; all bodies together are bounded by
//! the profile's length, as a file is. A change of what is written also increases
//! `push::batch::ENCODER_VERSION`.

use std::path::Path;

use super::bodies::{BodyLimit, BodySink, EncodedBody};
use super::otlp::{self, Signal};
use super::recording::Recording;
use super::{ExportError, ExportOptions, FleetLabels, Target, clickhouse, pprof_bodies};
use profiler_files::WorkListener;
use profiler_files::output::too_long;

/// What an engine takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
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
pub struct EncodeOptions<'l> {
    /// The format.
    pub encoding: Encoding,
    /// The labels of each body.
    pub labels: &'l FleetLabels,
    /// Whether to look up names for unnamed addresses in files of this machine. The bodies then
    /// depend on these files, too.
    pub names: bool,
    /// The length of a body, not compressed, about.
    pub most_bytes: usize,
}

/// Encodes the profile `from`, and passes the bodies to `sink`. Reads the
/// profile up to three times, and holds one thread, one body and, for OTLP, the numbers of all
/// spans.
///
/// # Errors
/// That of `sink`, that the file is no profile, or that the bodies would have more than a thousand
/// times its bytes plus 256 MiB. `sink` may have bodies already.
pub fn encode(
    from: &Path,
    options: EncodeOptions<'_>,
    sink: &mut dyn BodySink,
) -> Result<(), ExportError> {
    let export = ExportOptions::to(options.encoding.target()).names(options.names);
    let recording = Recording::open(from, &export, options.labels, WorkListener::default())?;
    let left = recording.most_bytes();
    encode_within(&recording, options, BoundedBodies { sink, left })
}

/// Encodes a recording.
fn encode_within(
    recording: &Recording,
    options: EncodeOptions<'_>,
    mut bodies: BoundedBodies<'_>,
) -> Result<(), ExportError> {
    let EncodeOptions {
        encoding,
        labels,
        most_bytes,
        ..
    } = options;
    let sink = &mut bodies;
    let limit = BodyLimit::Bytes(most_bytes);
    match encoding {
        Encoding::OtlpTraces => otlp::encode(recording, Signal::Traces, limit, sink),
        Encoding::OtlpMetrics => otlp::encode(recording, Signal::Metrics, limit, sink),
        Encoding::OtlpProfiles => otlp::encode(recording, Signal::Profiles, limit, sink),
        Encoding::Pprof => pprof_bodies::encode(recording, most_bytes, sink),
        Encoding::ClickHouseRows => {
            let identity = clickhouse::BatchIdentity::of(recording.survey(), labels);
            clickhouse::encode(recording, &identity, most_bytes, sink)
        }
    }
    .map(drop)
}

/// Passes bodies on, up to a number of bytes.
struct BoundedBodies<'s> {
    sink: &'s mut dyn BodySink,
    left: u64,
}

impl BodySink for BoundedBodies<'_> {
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
        let left = self.left.checked_sub(body.bytes.len() as u64);
        self.left = left.ok_or_else(|| ExportError::Write(too_long()))?;
        self.sink.body(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bodies so far.
    #[derive(Default)]
    struct Lengths(Vec<u64>);

    impl BodySink for Lengths {
        fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
            self.0.push(body.bytes.len() as u64);
            Ok(())
        }
    }

    /// Encodes a profile of two processes up to a number of bytes.
    fn lengths(encoding: Encoding, left: u64) -> (Vec<u64>, Result<(), ExportError>) {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("profile.json");
        let profile = include_str!("../tests/corpus/profile_export/weighted.json");
        std::fs::write(&from, profile).unwrap();
        let labels = FleetLabels::default();
        let options = EncodeOptions {
            encoding,
            labels: &labels,
            names: false,
            most_bytes: 512,
        };
        let export = ExportOptions::to(encoding.target()).names(false);
        let recording = Recording::open(&from, &export, &labels, WorkListener::default()).unwrap();
        let mut sink = Lengths::default();
        let bodies = BoundedBodies {
            sink: &mut sink,
            left,
        };
        let done = encode_within(&recording, options, bodies);
        (sink.0, done)
    }

    #[test]
    fn the_bodies_of_every_encoding_are_bounded_together() {
        for encoding in [
            Encoding::OtlpTraces,
            Encoding::OtlpProfiles,
            Encoding::Pprof,
            Encoding::ClickHouseRows,
        ] {
            let (all, done) = lengths(encoding, u64::MAX);
            done.unwrap();
            assert!(all.len() > 1, "{encoding:?}: {all:?}");
            let sum: u64 = all.iter().sum();
            let (exact, done) = lengths(encoding, sum);
            assert!(done.is_ok() && exact == all, "{encoding:?}: {exact:?}");
            let (cut, done) = lengths(encoding, sum - 1);
            assert_eq!(Some(cut.as_slice()), all.get(..all.len() - 1));
            assert!(
                matches!(&done, Err(ExportError::Write(why)) if why.kind() == std::io::ErrorKind::FileTooLarge),
                "{encoding:?}: {done:?}"
            );
        }
    }
}
