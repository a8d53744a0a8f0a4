//! Fuzzes the parser of profiles: it accepts and refuses the same texts as serde_json, and returns
//! the same values, also if the text arrives in pieces.
//!
//! The checks are shared with `profiler-parent/tests/foreign_files.rs`.

#![no_main]

#[path = "../../profiler-parent/tests/hostile/parsed.rs"]
mod parsed;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    parsed::check(data);
});
