//! Fuzzes the decoding of consecutive entries, as a chunk holds them.

use profiler_core::internal::entry;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let mut remaining = data;
    while let Ok((_, len)) = entry::decode(remaining) {
        assert!(len >= 16 && len <= remaining.len());
        remaining = &remaining[len..];
    }
}
