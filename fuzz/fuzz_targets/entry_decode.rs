//! Fuzzes the decoding of consecutive entries, as a chunk holds them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler_core::internal::entry;

fuzz_target!(|data: &[u8]| {
    let mut remaining = data;
    while let Ok((_, len)) = entry::decode(remaining) {
        assert!(len >= 16 && len <= remaining.len());
        remaining = &remaining[len..];
    }
});
