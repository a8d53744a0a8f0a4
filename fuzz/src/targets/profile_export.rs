//! Fuzzes the export of profiles in both formats to every target: the output is well-formed, its
//! sums agree, and its length is bounded by the length of the input.
//!
//! The input is a profile, or a list of edits of a valid one. The checks are shared with
//! `profiles/export/tests/foreign_files.rs`.

use crate::hostile::{edits, exported, room::Room};

const VALID: [&str; 3] = [
    include_str!("../../../profiles/export/tests/corpus/profile_export/processed.json"),
    include_str!("../../../profiles/export/tests/corpus/profile_export/gecko.json"),
    include_str!("../../../profiles/export/tests/corpus/profile_export/weighted.json"),
];

thread_local! {
    static ROOM: Room = Room::new();
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let text = edits::text_of(data, &VALID);
    ROOM.with(|room| exported::check(&text, room));
}
