//! The encoder of each engine.
//!
//! Used by the senders. Every encoder reads the batch as an export does ([`crate::export`]), so a
//! batch and a file are encoded alike.

use super::destination::PushEngine;
use super::spool::BatchToSend;
use super::{BatchEncoder, PushIdentity};
use crate::export::bodies::{BodySink, MOST_BODY_BYTES};
use crate::export::encode::{EncodeOptions, Encoding, encode};
use crate::export::{ExportError, FleetLabels};

/// Encodes batches of one service.
#[derive(Debug)]
pub(crate) struct EngineEncoder {
    labels: FleetLabels,
    names: bool,
}

impl EngineEncoder {
    /// For the batches of a session, which looked up all names that it could when it captured them.
    pub(crate) fn of_batches(identity: PushIdentity) -> Self {
        let PushIdentity {
            service,
            version,
            host,
        } = identity;
        Self {
            labels: FleetLabels {
                service,
                version,
                host,
                ..FleetLabels::default()
            },
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
        for encoding in encodings {
            let options = EncodeOptions {
                encoding: *encoding,
                labels: &self.labels,
                names: self.names,
                most_bytes: MOST_BODY_BYTES,
            };
            encode(&batch.path, options, bodies)?;
        }
        Ok(())
    }
}
