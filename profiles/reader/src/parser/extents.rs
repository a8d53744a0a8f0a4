//! The places of long lists and objects that were skipped.
//!
//! The first pass through a text notes the places, and the second pass jumps over the values, so it
//! does not read unneeded text again. Invariant: memory is bounded by the length of the text
//! divided by [`LONG`], because only the outermost levels of nesting are noted.

use std::collections::HashMap;

/// The shortest value that is noted, in bytes.
const LONG: u64 = 64 * 1024;

/// The end of each long value, by its start. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Extents(HashMap<u64, u64>);

impl Extents {
    /// Notes a value, if it is long.
    #[inline]
    pub(super) fn note(&mut self, start: u64, end: u64) {
        if end - start >= LONG {
            self.0.insert(start, end);
        }
    }

    /// The end of the long value that begins at `start`.
    pub(super) fn end(&self, start: u64) -> Option<u64> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&start).copied()
    }
}
