//! A section of an ELF file, and the numbers in its bytes.
//!
//! Used by all modules that read unwinding tables. Invariant: a number beyond the end of the bytes
//! is `None`.

use std::ops::Range;
use std::sync::Arc;

/// A section of a loaded file: its addresses in the file's own numbering, and its bytes.
#[derive(Clone, Debug)]
pub struct Section {
    /// The file's own addresses.
    pub addresses: Range<u64>,
    /// The bytes at these addresses.
    pub bytes: Arc<[u8]>,
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|word| u16::from_ne_bytes(*word))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|word| u32::from_ne_bytes(*word))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|word| u64::from_ne_bytes(*word))
}
