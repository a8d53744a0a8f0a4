//! The encoder of each engine.
//!
//! Used by the senders. Every encoder reads the batch as an export does ([`crate::export`]), so a
//! batch and a file are encoded alike.

use super::destination::PushEngine;
use super::spool::BatchToSend;
use super::{BatchEncoder, PushIdentity};
use crate::export::bodies::{BodySink, MOST_BODY_BYTES};
use crate::export::encode::{Encoding, encode};
use crate::export::{ExportError, FleetLabels};

/// Encodes batches of one service.
#[derive(Debug)]
pub(crate) struct EngineEncoder {
    labels: FleetLabels,
}

impl EngineEncoder {
    pub(crate) fn new(identity: PushIdentity) -> Self {
        let PushIdentity { service, version } = identity;
        Self {
            labels: FleetLabels {
                service,
                version,
                ..FleetLabels::default()
            },
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
            encode(
                &batch.path,
                *encoding,
                &self.labels,
                MOST_BODY_BYTES,
                bodies,
            )?;
        }
        Ok(())
    }
}
