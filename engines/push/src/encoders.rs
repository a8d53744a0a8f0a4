//! The encoder of each engine.
//!
//! Used by the senders. Every encoder reads the batch as an export does ([`profiler_export`]), so a
//! batch and a file are encoded alike.

use super::destination::PushEngine;
use super::options::PushIdentity;
use super::spool::BatchToSend;
use profiler_export::bodies::{BodySink, MAX_BODY_BYTES};
use profiler_export::encode::{EncodeOptions, Encoding, encode};
use profiler_export::{ExportError, FleetLabels};

/// Encodes a batch for an engine.
pub(crate) trait BatchEncoder: Send + Sync {
    /// Passes all bodies of a batch to `bodies`, always the same ones in the same order.
    fn encode(
        &self,
        engine: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError>;
}

/// Encodes batches.
#[derive(Debug)]
pub(crate) struct EngineEncoder {
    /// Of batches without a stored identity.
    identity: PushIdentity,
    names: bool,
}

impl EngineEncoder {
    /// For the batches of a session, which looked up all names that it could when it captured them.
    pub(crate) fn of_batches(identity: PushIdentity) -> Self {
        Self {
            identity,
            names: false,
        }
    }

    /// For profiles of any origin, whose addresses may have no names yet.
    pub(crate) fn of_files(identity: PushIdentity) -> Self {
        Self {
            names: true,
            ..Self::of_batches(identity)
        }
    }

    /// The labels of a batch: those of the pusher that has captured it.
    fn labels(&self, batch: &BatchToSend) -> FleetLabels {
        let stored = batch.identity();
        let PushIdentity {
            service,
            version,
            host,
        } = stored.unwrap_or(&self.identity).clone();
        let mut labels = FleetLabels::default();
        labels.service = service;
        labels.version = version;
        labels.host = host;
        labels
    }
}

impl BatchEncoder for EngineEncoder {
    fn encode(
        &self,
        engine: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError> {
        let encodings: &[Encoding] = match engine {
            PushEngine::Otlp => &[
                Encoding::OtlpTraces,
                Encoding::OtlpMetrics,
                Encoding::OtlpProfiles,
            ],
            PushEngine::Pyroscope | PushEngine::Parca => &[Encoding::Pprof],
            PushEngine::ClickHouse => &[Encoding::ClickHouseRows],
        };
        let labels = self.labels(batch);
        for encoding in encodings {
            let options = EncodeOptions {
                encoding: *encoding,
                labels: &labels,
                names: self.names,
                most_bytes: MAX_BODY_BYTES,
            };
            encode(&batch.path, options, bodies)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::destination::PushDestination;
    use super::super::queue::{BatchEnd, DestinationIndex};
    use super::super::spool::Spool;
    use super::*;

    fn of_version(version: &str) -> PushIdentity {
        PushIdentity {
            version: Some(version.to_owned()),
            ..PushIdentity::default()
        }
    }

    #[test]
    fn a_batch_has_the_labels_of_the_pusher_that_captured_it() {
        let directory = tempfile::tempdir().unwrap();
        let destination = PushDestination::parse("otlp+http://a").unwrap();
        let to = [destination];
        let open = |version: &str| {
            let identity = of_version(version);
            Spool::open(directory.path(), u64::MAX, &to, &identity).unwrap()
        };
        let add = |spool: &Spool| {
            std::fs::write(spool.unfinished_path().unwrap(), "").unwrap();
            spool.add(1).unwrap();
        };
        add(&open("1.4.2"));
        let encoder = EngineEncoder::of_batches(of_version("1.4.3"));
        let spool = open("1.4.3");
        add(&spool);
        let first = DestinationIndex(0);
        for version in ["1.4.2", "1.4.3"] {
            let batch = spool.take(first).unwrap();
            assert_eq!(encoder.labels(&batch).version.as_deref(), Some(version));
            spool.finish(first, &batch, BatchEnd::Sent);
        }
    }

    #[test]
    fn a_batch_without_an_identity_has_the_labels_of_its_sender() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("0".repeat(32));
        std::fs::create_dir(&home).unwrap();
        std::fs::write(home.join("0000000000-1.json.gz"), "").unwrap();
        let to = [PushDestination::parse("otlp+http://a").unwrap()];
        let identity = of_version("2");
        let spool = Spool::open(directory.path(), u64::MAX, &to, &identity).unwrap();
        let batch = spool.take(DestinationIndex(0)).unwrap();
        let encoder = EngineEncoder::of_files(identity);
        assert_eq!(encoder.labels(&batch).version.as_deref(), Some("2"));
    }
}
