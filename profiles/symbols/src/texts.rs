//! Names and paths, each stored once per module.
//!
//! Used by [`super::dwarf`] and [`super::module`]. Names are demangled when they are first added.
//! Invariant: all texts together take at most [`MAX_BYTES`]; further texts are replaced by
//! [`LEFT_OUT`] and counted.

use std::collections::HashMap;
use std::sync::Arc;

use super::demangle;

/// Limit on the bytes of a path.
const LONGEST_PATH: usize = 4096;
/// Limit on the bytes of a name before demangling.
const LONGEST_NAME: usize = 1 << 14;

/// Limit on the bytes of all texts of a look-up, in both forms.
const MAX_BYTES: u64 = 32 << 20;
/// Replaces a text beyond the limit.
const LEFT_OUT: &str = "(name left out: too many)";

/// The id of a text in [`Texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TextId(u32);

/// The texts of one module.
#[derive(Debug, Default)]
pub(super) struct Texts {
    names: HashMap<Vec<u8>, TextId>,
    files: HashMap<Vec<u8>, TextId>,
    all: Vec<Arc<str>>,
    bytes: u64,
    other: Option<TextId>,
    left_out: u64,
}

impl Texts {
    /// Adds a function's name, and demangles it.
    pub(super) fn name(&mut self, raw: &[u8]) -> TextId {
        let raw = raw.get(..LONGEST_NAME).unwrap_or(raw);
        if let Some(known) = self.names.get(raw) {
            return *known;
        }
        if self.bytes > MAX_BYTES {
            return self.other();
        }
        let id = self.add(demangle::readable(raw), raw.len());
        self.names.insert(raw.to_owned(), id);
        id
    }

    /// Adds a path.
    pub(super) fn file(&mut self, path: &[u8]) -> TextId {
        let path = path.get(..LONGEST_PATH).unwrap_or(path);
        if let Some(known) = self.files.get(path) {
            return *known;
        }
        if self.bytes > MAX_BYTES {
            return self.other();
        }
        let id = self.add(String::from_utf8_lossy(path).into_owned(), path.len());
        self.files.insert(path.to_owned(), id);
        id
    }

    pub(super) fn get(&self, id: TextId) -> Option<Arc<str>> {
        self.all.get(id.0 as usize).cloned()
    }

    /// Size of all texts in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of texts left out.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    fn other(&mut self) -> TextId {
        self.left_out += 1;
        match self.other {
            Some(other) => other,
            None => {
                let other = self.add(LEFT_OUT.to_owned(), 0);
                *self.other.insert(other)
            }
        }
    }

    fn add(&mut self, text: String, raw: usize) -> TextId {
        let id = TextId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.bytes += (text.len() + raw) as u64 + 64;
        self.all.push(text.into());
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_texts_that_do_not_fit_are_counted() {
        let mut texts = Texts::default();
        let first = texts.name(b"first");
        for number in 0..10_000_u32 {
            texts.name(format!("{number}{}", "x".repeat(LONGEST_NAME)).as_bytes());
            texts.file(format!("/{number}/{}", "x".repeat(LONGEST_PATH)).as_bytes());
        }
        assert!(
            texts.bytes() <= MAX_BYTES + (LONGEST_NAME + (1 << 13)) as u64,
            "{}",
            texts.bytes()
        );
        assert_eq!(texts.left_out() + texts.all.len() as u64, 20_000 + 2);
        assert_eq!(texts.name(b"first"), first);
        let last = texts.name(b"last");
        assert_eq!(texts.get(last).as_deref(), Some(LEFT_OUT));
    }
}
