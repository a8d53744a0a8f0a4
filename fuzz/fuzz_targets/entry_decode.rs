//! One entry after the other, as they lie in a chunk.

#![no_main]

use libfuzzer_sys::fuzz_target;
use profiler_core::internal::entry;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok((_, len)) = entry::decode(rest) {
        assert!(len >= 16 && len <= rest.len());
        rest = &rest[len..];
    }
});
