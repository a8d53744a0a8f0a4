//! Fuzzes the import of `.cpuprofile` files: an accepted file becomes a valid profile that every
//! export reads, and a rejected file leaves no output file.
//!
//! The input is such a file, or a list of edits of a valid one. The checks are shared with
//! `profiler-parent/tests/foreign_files.rs`.

#![no_main]

#[path = "../../profiler-parent/tests/hostile/edits.rs"]
mod edits;
#[path = "../../profiler-parent/tests/hostile/exported.rs"]
mod exported;
#[path = "../../profiler-parent/tests/hostile/imported.rs"]
mod imported;
#[path = "../../profiler-parent/tests/hostile/pprof.rs"]
mod pprof;
#[path = "../../profiler-parent/tests/hostile/room.rs"]
mod room;

use libfuzzer_sys::fuzz_target;
use room::Room;

const VALID: [&str; 1] = [include_str!(
    "../../profiler-parent/tests/corpus/cpuprofile_import/plain.json"
)];

thread_local! {
    static ROOM: Room = Room::new();
}

fuzz_target!(|data: &[u8]| {
    let text = edits::text_of(data, &VALID);
    ROOM.with(|room| imported::check(&text, room));
});
