//! Fuzzes the parser of profiles: it accepts and refuses the same texts as serde_json, and returns
//! the same values, also if the text arrives in pieces.
//!
//! The checks are shared with `profiles/export/tests/foreign_files.rs`.

use crate::hostile::parsed;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    parsed::check(data);
}
