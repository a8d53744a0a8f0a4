//! `.cpuprofile` files: what is taken is a profile that is sound and that every export reads; nothing else leaves a file.
//!
//! The input is such a file, or edits of a true one. Its laws are those of `profiler-parent/tests/foreign_files.rs`.

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

const TRUE: [&str; 1] = [include_str!("../../profiler-parent/tests/corpus/cpuprofile_import/plain.json")];

thread_local! {
    static ROOM: Room = Room::new();
}

fuzz_target!(|data: &[u8]| {
    let text = edits::text_of(data, &TRUE);
    ROOM.with(|room| imported::check(&text, room));
});
