//! Fuzzes the merge of profiles: an accepted file gives a well-formed profile that every export
//! reads, and a rejected file leaves no output file.
//!
//! The input is a profile, or a list of edits of a valid one. The checks are shared with
//! `profiles/export/tests/foreign_files.rs`.

use crate::hostile::{edits, merged, room::Room};

const VALID: [&str; 2] = [
    include_str!("../../../profiles/export/tests/corpus/profile_merge/plain.json"),
    include_str!("../../../profiles/export/tests/corpus/profile_merge/hosts.json"),
];

thread_local! {
    static ROOM: Room = Room::new();
}

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let text = edits::text_of(data, &VALID);
    ROOM.with(|room| merged::check(&text, room));
}
