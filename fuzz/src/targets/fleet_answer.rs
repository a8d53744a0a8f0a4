//! Fuzzes the reader of a store's answers: it reads whole rows or fails, and never takes a message
//! for the end.
//!
//! The checks are shared with `engines/push/tests/foreign_answers.rs`.

use crate::hostile::answered;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    // An error is as good as rows.
    let _ = answered::check(data);
}
