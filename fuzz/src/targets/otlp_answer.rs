//! Fuzzes the reader of an OTLP endpoint's answers: it agrees with the decoder of
//! `opentelemetry-proto`.
//!
//! The checks are shared with `engines/push/tests/foreign_answers.rs`.

use crate::hostile::answered;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    answered::check_refusal(data);
}
