//! Profiles of either form, read back and written in every format: well-formed, sums agree, no longer than the input allows.
//!
//! The input is a profile, or edits of a true one. Its laws are those of `profiler-parent/tests/foreign_files.rs`.

#![no_main]

#[path = "../../profiler-parent/tests/hostile/edits.rs"]
mod edits;
#[path = "../../profiler-parent/tests/hostile/exported.rs"]
mod exported;
#[path = "../../profiler-parent/tests/hostile/pprof.rs"]
mod pprof;
#[path = "../../profiler-parent/tests/hostile/room.rs"]
mod room;

use libfuzzer_sys::fuzz_target;
use room::Room;

const TRUE: [&str; 3] = [
    include_str!("../../profiler-parent/tests/corpus/profile_export/processed.json"),
    include_str!("../../profiler-parent/tests/corpus/profile_export/gecko.json"),
    include_str!("../../profiler-parent/tests/corpus/profile_export/weighted.json"),
];

thread_local! {
    static ROOM: Room = Room::new();
}

fuzz_target!(|data: &[u8]| {
    let text = edits::text_of(data, &TRUE);
    ROOM.with(|room| exported::check(&text, room));
});
