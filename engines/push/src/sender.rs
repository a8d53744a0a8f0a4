//! Sends the batches of a spool to one destination, one after the other.
//!
//! One thread per destination, so that an endpoint that is slow or dead does not delay the others.
//! A body is sent until the endpoint accepts or refuses it, until its batch is removed from the
//! spool, or until the pusher ends. A batch that cannot be encoded because the system has no
//! descriptor, thread or memory is encoded again later. An endpoint that breaks off may have stored
//! a body; the body is then sent again with the same identifier. A body of
//! stacks is not sent if the store has all of its rows; it counts as accepted.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::attempts::{Attempts, NextStep, is_wrong_place};
use super::destination::PushDestination;
use super::directory_lock::LockError;
use super::encoders::BatchEncoder;
use super::http_client::{HttpClient, PushRequest};
use super::otlp_answer::{RefusedPart, refused_part};
use super::queue::{BatchEnd, DestinationIndex};
use super::report::SendCounts;
use super::request::{body_for, request_for};
use super::spool::{BatchToSend, Spool};
use super::spool_state::FinishedBodies;
use super::stored_stacks::StoredStacks;
use profiler_export::ExportError;
use profiler_export::bodies::{BodyKind, BodySink, EncodedBody};
use profiler_symbols::stack::{SymbolStackError, on_symbol_stack};

/// Sends batches to a destination.
pub(super) struct Sender {
    pub(super) index: DestinationIndex,
    pub(super) destination: PushDestination,
    pub(super) spool: Arc<Spool>,
    pub(super) client: HttpClient,
    pub(super) encoder: Arc<dyn BatchEncoder>,
    pub(super) counts: Arc<Mutex<SendCounts>>,
    /// Ends, without giving a batch up, if the endpoint says that the address or the credentials
    /// are wrong. Otherwise it rejects a body at a wrong address, and tries again after wrong
    /// credentials until the pusher ends.
    pub(super) needs_access: bool,
}

impl Sender {
    /// Sends until the pusher ends.
    pub(super) fn run(&self) {
        let mut attempts = Attempts::default();
        let mut stored = StoredStacks::default();
        while let Some(batch) = self.spool.take(self.index) {
            let mut bodies = SentBodies {
                sender: self,
                batch: &batch,
                attempts: &mut attempts,
                stored: &mut stored,
                random: RandomState::new(),
                next: 0,
                done: batch.done,
                is_over: false,
            };
            // Without an end, it was removed from the spool, or it waits for the next pusher.
            match self.send(&batch, &mut bodies) {
                Some(end) => self.spool.finish(self.index, &batch, end),
                None if bodies.is_over => return,
                None => {}
            }
        }
    }

    /// Sends a batch. `None` if it must not be sent any more.
    fn send(&self, batch: &BatchToSend, bodies: &mut SentBodies<'_>) -> Option<BatchEnd> {
        let mut unclear = 0;
        loop {
            match batch.keep_locked() {
                Ok(()) => {}
                Err(LockError::Lost) => {
                    let id = &batch.id;
                    self.note_error(&format!("batch {id} is left to another pusher"));
                    return Some(BatchEnd::Rejected);
                }
                Err(error) => {
                    self.note_error(&format!("batch {}: {error}", batch.id));
                    if !bodies.pause_after_failure() {
                        return None;
                    }
                    continue;
                }
            }
            let (cause, error) = match self.encode(batch, bodies) {
                Ok(()) if bodies.done.refused == 0 => return Some(BatchEnd::Sent),
                Ok(()) => return Some(BatchEnd::Rejected),
                Err(EncodingError::Export(ExportError::Stopped)) => return None,
                // Its directory may have been moved.
                Err(_) if self.spool.is_stopped() => return None,
                Err(error) => (error.cause(), error),
            };
            self.note_error(&format!("cannot encode batch {}: {error}", batch.id));
            unclear += u32::from(cause == FailureCause::Unclear);
            if cause == FailureCause::Batch || unclear > 1 {
                return Some(BatchEnd::Rejected);
            }
            if !bodies.pause_after_failure() {
                return None;
            }
        }
    }

    /// Passes the bodies of a batch to `bodies`. Reading a profile may need more stack than this
    /// thread has.
    fn encode(
        &self,
        batch: &BatchToSend,
        bodies: &mut SentBodies<'_>,
    ) -> Result<(), EncodingError> {
        bodies.next = 0;
        let engine = self.destination.engine();
        on_symbol_stack(|| self.encoder.encode(engine, batch, bodies))??;
        Ok(())
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

/// The reason why a batch has not been encoded.
#[derive(Debug, thiserror::Error)]
enum EncodingError {
    #[error(transparent)]
    Stack(#[from] SymbolStackError),
    #[error(transparent)]
    Export(#[from] ExportError),
}

/// What an error of encoding says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureCause {
    /// The system has no descriptor, thread or memory at present.
    Shortage,
    /// The system or the batch; another attempt shows which.
    Unclear,
    /// The batch is not a profile.
    Batch,
}

impl EncodingError {
    fn cause(&self) -> FailureCause {
        match self {
            Self::Stack(SymbolStackError::NoThread(_)) => FailureCause::Shortage,
            Self::Stack(SymbolStackError::Panicked(_)) => FailureCause::Unclear,
            Self::Export(ExportError::Read { source, .. } | ExportError::Write(source)) => {
                cause_of(source)
            }
            Self::Export(_) => FailureCause::Batch,
        }
    }
}

fn cause_of(error: &io::Error) -> FailureCause {
    match Errno::from_io_error(error) {
        Some(Errno::AGAIN | Errno::MFILE | Errno::NFILE | Errno::NOMEM) => FailureCause::Shortage,
        Some(_) => FailureCause::Unclear,
        None if error.kind() == io::ErrorKind::OutOfMemory => FailureCause::Shortage,
        None => FailureCause::Batch,
    }
}

/// Sends the bodies of a batch.
struct SentBodies<'s> {
    sender: &'s Sender,
    batch: &'s BatchToSend,
    attempts: &'s mut Attempts,
    stored: &'s mut StoredStacks,
    random: RandomState,
    /// The number of the next body.
    next: u64,
    /// The bodies that the destination is done with.
    done: FinishedBodies,
    /// Whether the sender ends.
    is_over: bool,
}

impl SentBodies<'_> {
    /// A number from 0 to 1.
    fn random(&self) -> f64 {
        let bits = self.random.hash_one((self.next, self.sender.spool.bytes()));
        f64::from((bits >> 32) as u32) / f64::from(u32::MAX)
    }

    /// Waits as after a request without an answer. False if the batch must not be sent any more.
    fn pause_after_failure(&mut self) -> bool {
        let random = self.random();
        let pause = self.attempts.pause_after_failure(random);
        let Sender { index, spool, .. } = self.sender;
        spool.pause(*index, self.batch.number, pause)
    }
}

impl BodySink for SentBodies<'_> {
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
        let number = self.next;
        self.next = number.saturating_add(1);
        if number < self.done.bodies {
            return Ok(());
        }
        if !self.sender.leaves_out(&body.kind) {
            self.deliver(&body, number)?;
        }
        self.done.bodies = self.next;
        let Sender { index, spool, .. } = self.sender;
        if spool.finish_body(*index, self.batch, self.done) {
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
        loop {
            let rows = self.stored.missing(&body.kind, body.bytes);
            if rows.is_empty() {
                return Ok(());
            }
            let bytes = body_for(destination, &body.kind, &rows);
            let time_left = spool.time_left().ok_or(ExportError::Stopped)?;
            // Another pusher may have taken the batch over during the pause.
            match self.batch.keep_locked() {
                Ok(()) => {}
                Err(LockError::Lost) => return Err(ExportError::Stopped),
                Err(error) => {
                    self.sender.note_error(&error.to_string());
                    if self.pause_after_failure() {
                        continue;
                    }
                    return Err(ExportError::Stopped);
                }
            }
            let sent = client.send(&request, &bytes, time_left);
            self.sender
                .count(|counts| counts.add_attempt(&sent, bytes.len()));
            let status = sent.answer.status();
            let random = self.random();
            match self.attempts.after(sent.answer, random) {
                NextStep::Accepted => {
                    self.stored.note(&body.kind, &rows);
                    self.note_refused_part(&body.kind, &sent.answered, &request);
                    return Ok(());
                }
                NextStep::Rejected(why) => {
                    self.stored.forget();
                    return self.is_refused(&body.kind, status, why);
                }
                // A gateway may allow other kinds only. Wrong credentials are seen with those: they
                // are sent first.
                NextStep::Denied(why) if self.leaves_to_others(&body.kind, status) => {
                    return self.is_refused(&body.kind, status, why);
                }
                NextStep::Denied(why) => self.wait_for_access(&why)?,
                NextStep::TryAgain { after, why } => {
                    if status.is_none() {
                        self.stored.forget();
                    }
                    self.sender.note_error(&why);
                    if !spool.pause(*index, self.batch.number, after) {
                        return Err(ExportError::Stopped);
                    }
                }
            }
        }
    }

    /// Whether a refusal concerns only bodies of this kind.
    fn leaves_to_others(&self, kind: &BodyKind, status: Option<u16>) -> bool {
        is_optional(kind) && status == Some(403) && !self.sender.needs_access
    }

    /// Waits before the next attempt to send a body to an endpoint that refuses the credentials. It
    /// may accept them later, for example after an administrator renews them. Returns an error if
    /// the batch must not be sent any more.
    fn wait_for_access(&mut self, why: &str) -> Result<(), ExportError> {
        self.stored.forget();
        self.sender.note_error(why);
        let random = self.random();
        let pause = self.attempts.pause_after_failure(random);
        let Sender { index, spool, .. } = self.sender;
        self.is_over = self.sender.needs_access || spool.is_ending();
        // At the end there is one more attempt.
        match !self.is_over && spool.pause_until_ending(*index, self.batch.number, pause) {
            true => Ok(()),
            false => Err(ExportError::Stopped),
        }
    }

    /// The endpoint has accepted a body, and may have refused a part of it.
    fn note_refused_part(&mut self, kind: &BodyKind, answer: &[u8], request: &PushRequest) {
        if let Some(part) = refused_part(answer).filter(|_| is_otlp(kind)) {
            self.done.refused = self.done.refused.saturating_add(1);
            let RefusedPart { items, why } = part;
            let why = request.shown(&why);
            self.sender
                .note_error(&format!("the endpoint has refused {items} items: {why}"));
        }
    }

    /// The endpoint has refused a body, or it has no place for bodies of this kind. An error if the
    /// sender ends.
    fn is_refused(
        &mut self,
        kind: &BodyKind,
        status: Option<u16>,
        why: String,
    ) -> Result<(), ExportError> {
        if is_optional(kind) && matches!(status, Some(404 | 405 | 501)) {
            self.sender
                .count(|counts| counts.without_profiles = Some(why));
            return Ok(());
        }
        self.sender.note_error(&why);
        if self.sender.needs_access && status.is_some_and(is_wrong_place) {
            self.is_over = true;
            return Err(ExportError::Stopped);
        }
        self.done.refused = self.done.refused.saturating_add(1);
        Ok(())
    }
}

/// Whether the answer to a body of this kind is an OTLP message.
const fn is_otlp(kind: &BodyKind) -> bool {
    matches!(
        kind,
        BodyKind::OtlpTraces | BodyKind::OtlpMetrics | BodyKind::OtlpProfiles
    )
}

/// Whether an endpoint may have no place for bodies of this kind although it takes others: profiles
/// are an experimental part of OTLP.
const fn is_optional(kind: &BodyKind) -> bool {
    matches!(kind, BodyKind::OtlpProfiles)
}
