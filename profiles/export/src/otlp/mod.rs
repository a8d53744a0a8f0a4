//! OTLP, the protocol of OpenTelemetry: the requests that carry traces, metrics and profiles.
//!
//! Called by [`super::export`], which writes one request to a file, and by senders, which take one
//! request after the other. The numbers of fields are those of version 1.10.0 of the protocol; its
//! profiles (`v1development`) are not yet stable.
//!
//! ```text
//! profile ─▶ span_index (first pass)  numbers, parents and flows of all spans      (held)
//! thread  ─▶ thread_spans ─▶ traces   spans with their attributes, events and links
//!                         └▶ open_spans ─▶ profiles   samples with the span that was open
//! counter ─▶ series ─▶ metrics
//! ```
//!
//! Invariants: the same profile has the same bytes; an identifier of a span depends on the session,
//! its process and its number only, so that traces and profiles refer to the same spans, also if
//! they are encoded apart; no body has an index beyond its tables.

mod attributes;
mod clock;
mod dictionary;
mod identity;
mod kinds;
mod links;
mod locations;
mod metrics;
mod open_spans;
mod profiles;
mod requests;
mod resource;
mod series;
mod span_index;
mod span_message;
mod thread_spans;
mod traces;

pub(super) use open_spans::{OpenSpans, groups, may_have_groups};
pub(super) use resource::{ProcessKey, host};
pub(super) use span_message::Vocabulary;
pub(super) use thread_spans::ThreadSpans;

use std::io::Write;

use super::ExportError;
use super::bodies::{BodyKind, BodyLimit, BodySink, EncodedBody};
use super::recording::{Recording, Totals};

/// A kind of data in OTLP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Spans.
    Traces,
    /// Counters and losses.
    Metrics,
    /// Samples.
    Profiles,
}

impl Signal {
    const fn kind(self) -> BodyKind {
        match self {
            Self::Traces => BodyKind::OtlpTraces,
            Self::Metrics => BodyKind::OtlpMetrics,
            Self::Profiles => BodyKind::OtlpProfiles,
        }
    }
}

/// Encodes a signal of a profile. Reads the threads of the profile twice.
pub(crate) fn encode(
    recording: &Recording,
    signal: Signal,
    limit: BodyLimit,
    sink: &mut dyn BodySink,
) -> Result<Totals, ExportError> {
    match signal {
        Signal::Traces => traces::encode(recording, limit, sink),
        Signal::Metrics => metrics::encode(recording, limit, sink),
        Signal::Profiles => profiles::encode(recording, limit, sink),
    }
}

/// Writes the request of a signal to a file.
pub(super) fn write(
    recording: &Recording,
    signal: Signal,
    out: impl Write,
) -> Result<Totals, ExportError> {
    let mut sink = Appended {
        kind: signal.kind(),
        out,
    };
    encode(recording, signal, BodyLimit::OneRequest, &mut sink)
}

/// Appends bodies of one kind to each other.
struct Appended<W> {
    kind: BodyKind,
    out: W,
}

impl<W: Write> BodySink for Appended<W> {
    fn body(&mut self, body: EncodedBody<'_>) -> Result<(), ExportError> {
        if body.kind == self.kind {
            self.out.write_all(body.bytes)?;
        }
        Ok(())
    }
}
