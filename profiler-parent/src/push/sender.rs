//! Sends the batches of a spool to one destination, one after the other.
//!
//! One thread per destination, so that an endpoint that is slow or dead does not delay the others.
//! A body is sent until the endpoint accepts or refuses it, until its batch is removed from the
//! spool, or until the pusher ends. An endpoint that breaks off may have stored a body; the body is
//! then sent again with the same identifier.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use super::BatchEncoder;
use super::attempts::{Attempts, NextStep};
use super::destination::PushDestination;
use super::http_client::HttpClient;
use super::queue::{BatchEnd, DestinationIndex};
use super::report::SendCounts;
use super::request::{body_for, request_for};
use super::spool::{BatchToSend, Spool};
use crate::export::ExportError;
use crate::export::bodies::{BodyKind, BodySink, EncodedBody};
use crate::symbols::stack::{SymbolStackError, on_symbol_stack};

/// Sends batches to a destination.
pub(super) struct Sender {
    pub(super) index: DestinationIndex,
    pub(super) destination: PushDestination,
    pub(super) spool: Arc<Spool>,
    pub(super) client: HttpClient,
    pub(super) encoder: Arc<dyn BatchEncoder>,
    pub(super) counts: Arc<Mutex<SendCounts>>,
}

impl Sender {
    /// Sends until the pusher ends.
    pub(super) fn run(&self) {
        let mut attempts = Attempts::default();
        while let Some(batch) = self.spool.take(self.index) {
            // Reading a profile may need more stack than this thread has.
            match on_symbol_stack(|| self.send(&batch, &mut attempts)) {
                Ok(Some(end)) => self.spool.finish(self.index, &batch, end),
                // It was removed from the spool, or it waits for the next pusher.
                Ok(None) => {}
                Err(error) => self.give_up(&batch, &error),
            }
        }
    }

    /// Sends a batch. `None` if it must not be sent any more.
    fn send(&self, batch: &BatchToSend, attempts: &mut Attempts) -> Option<BatchEnd> {
        let mut bodies = SentBodies {
            sender: self,
            batch,
            attempts,
            random: RandomState::new(),
            next: 0,
            refused: 0,
        };
        let engine = self.destination.engine();
        match self.encoder.encode(engine, batch, &mut bodies) {
            Ok(()) if bodies.refused == 0 => Some(BatchEnd::Sent),
            Ok(()) => Some(BatchEnd::Rejected),
            Err(ExportError::Stopped) => None,
            Err(error) => {
                self.note_error(&format!("cannot read batch {}: {error}", batch.id));
                Some(BatchEnd::Rejected)
            }
        }
    }

    /// Rejects a batch after an attempt that could not start a thread, or that panicked, so that it
    /// is not retried forever.
    fn give_up(&self, batch: &BatchToSend, error: &SymbolStackError) {
        self.note_error(&format!("cannot send batch {}: {error}", batch.id));
        self.spool.finish(self.index, batch, BatchEnd::Rejected);
    }

    /// Whether the endpoint has said that it has no place for bodies of this kind.
    fn leaves_out(&self, kind: &BodyKind) -> bool {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        is_optional(kind) && counts.without_profiles.is_some()
    }

    fn count(&self, change: impl FnOnce(&mut SendCounts)) {
        change(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn note_error(&self, error: &str) {
        self.count(|counts| counts.note_error(error));
    }
}

/// Sends the bodies of a batch.
struct SentBodies<'s> {
    sender: &'s Sender,
    batch: &'s BatchToSend,
    attempts: &'s mut Attempts,
    random: RandomState,
    /// The number of the next body.
    next: u64,
    refused: u64,
}

impl SentBodies<'_> {
    /// A number from 0 to 1.
    fn random(&self) -> f64 {
        let bits = self.random.hash_one((self.next, self.sender.spool.bytes()));
        f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
    }
}

impl BodySink for SentBodies<'_> {
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
        let number = self.next;
        self.next = number.saturating_add(1);
        if number < self.batch.bodies {
            return Ok(());
        }
        if !self.sender.leaves_out(&body.kind) {
            self.deliver(&body, number)?;
        }
        let Sender { index, spool, .. } = self.sender;
        if spool.accept_body(*index, self.batch) {
            Ok(())
        } else {
            Err(ExportError::Stopped)
        }
    }
}

impl SentBodies<'_> {
    /// Sends a body until the endpoint accepts or refuses it.
    fn deliver(&mut self, body: &EncodedBody<'_>, number: u64) -> Result<(), ExportError> {
        let Sender {
            index,
            destination,
            spool,
            client,
            ..
        } = self.sender;
        let request = request_for(destination, &body.kind, &self.batch.id.body(number));
        let bytes = body_for(destination, &body.kind, body.bytes);
        loop {
            if spool.is_over() {
                return Err(ExportError::Stopped);
            }
            let sent = client.send(&request, &bytes);
            self.sender
                .count(|counts| counts.add_attempt(&sent, bytes.len()));
            let status = sent.answer.status();
            let random = self.random();
            match self.attempts.after(sent.answer, random) {
                NextStep::Accepted => return Ok(()),
                NextStep::Rejected(why) => {
                    self.is_refused(&body.kind, status, why);
                    return Ok(());
                }
                NextStep::TryAgain { after, why } => {
                    self.sender.note_error(&why);
                    if !spool.pause(*index, self.batch.number, after) {
                        return Err(ExportError::Stopped);
                    }
                }
            }
        }
    }

    /// The endpoint has refused a body, or it has no place for bodies of this kind.
    fn is_refused(&mut self, kind: &BodyKind, status: Option<u16>, why: String) {
        if is_optional(kind) && matches!(status, Some(404 | 405 | 501)) {
            self.sender
                .count(|counts| counts.without_profiles = Some(why));
        } else {
            self.refused = self.refused.saturating_add(1);
            self.sender.note_error(&why);
        }
    }
}

/// Whether an endpoint may have no place for bodies of this kind although it takes others: profiles
/// are an experimental part of OTLP.
const fn is_optional(kind: &BodyKind) -> bool {
    matches!(kind, BodyKind::OtlpProfiles)
}
