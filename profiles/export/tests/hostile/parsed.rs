//! Properties of the parser of profiles: it accepts and refuses the same texts as serde_json, and
//! returns the same values, also if the text arrives in pieces.
//!
//! Used by `foreign_files` and the fuzz target `json_parser`.

use std::io::{self, Read};

use profiler_reader::{pass_over, read_tree};
use serde::de::IgnoredAny;
use serde_json::Value;

/// A reader that returns a few bytes at a time.
struct Pieces<'t> {
    text: &'t [u8],
    size: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let length = self.size.min(self.text.len()).min(room.len());
        let (piece, rest) = self.text.split_at(length);
        self.text = rest;
        room[..length].copy_from_slice(piece);
        Ok(length)
    }
}

/// Compares the parser with serde_json. Returns the length of the text if it is JSON.
pub(crate) fn check(text: &[u8]) -> Option<u64> {
    let tree = serde_json::from_slice::<Value>(text);
    let passed = serde_json::from_slice::<IgnoredAny>(text);
    for size in [1, 7, text.len().max(1)] {
        let found = read_tree(Pieces { text, size });
        assert_eq!(
            found.as_ref().ok(),
            tree.as_ref().ok(),
            "{found:?} {tree:?}"
        );
        // A text that is passed over may be nested deeper, and have wrong pairs of escapes.
        let found = pass_over(Pieces { text, size });
        assert_eq!(found.is_ok(), passed.is_ok(), "{found:?} {passed:?}");
        assert!(found.is_err() || found.is_ok_and(|length| length == text.len() as u64));
    }
    tree.is_ok().then_some(text.len() as u64)
}
