//! Fuzzes the parser of profiles: it reads what serde_json reads, with the same values, and refuses
//! what serde_json refuses, in pieces of any length.
//!
//! The checks are shared with `profiler-parent/tests/foreign_files.rs`.

#![no_main]

#[path = "../../profiler-parent/tests/hostile/parsed.rs"]
mod parsed;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    parsed::check(data);
});
