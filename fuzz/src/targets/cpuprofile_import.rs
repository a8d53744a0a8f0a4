//! Fuzzes the import of `.cpuprofile` files: an accepted file becomes a valid profile that every
//! export reads, and a rejected file leaves no output file.
//!
//! The input is such a file, or a list of edits of a valid one. The checks are shared with
//! `profiles/export/tests/foreign_files.rs`.

use crate::hostile::{edits, imported, room::Room};

const VALID: [&str; 1] = [include_str!(
    "../../../profiles/export/tests/corpus/cpuprofile_import/plain.json"
)];

thread_local! {
    static ROOM: Room = Room::new();
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let text = edits::text_of(data, &VALID);
    ROOM.with(|room| imported::check(&text, room));
}
