//! Names and paths, each kept once per module.
//!
//! Used by [`super::dwarf`] and [`super::module`]. Names are made readable when they are first seen.

use std::collections::HashMap;
use std::sync::Arc;

use super::demangle;

/// Longest path.
const LONGEST_PATH: usize = 4096;
/// Longest name before it is made readable.
const LONGEST_NAME: usize = 1 << 14;

/// A text of [`Texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TextId(u32);

/// The texts of one module.
#[derive(Debug, Default)]
pub(super) struct Texts {
    names: HashMap<Vec<u8>, TextId>,
    files: HashMap<Vec<u8>, TextId>,
    all: Vec<Arc<str>>,
    bytes: u64,
}

impl Texts {
    /// The readable form of a function's name.
    pub(super) fn name(&mut self, raw: &[u8]) -> TextId {
        let raw = raw.get(..LONGEST_NAME).unwrap_or(raw);
        if let Some(known) = self.names.get(raw) {
            return *known;
        }
        let id = self.add(demangle::readable(raw));
        self.names.insert(raw.to_owned(), id);
        id
    }

    /// A path.
    pub(super) fn file(&mut self, path: &[u8]) -> TextId {
        let path = path.get(..LONGEST_PATH).unwrap_or(path);
        if let Some(known) = self.files.get(path) {
            return *known;
        }
        let id = self.add(String::from_utf8_lossy(path).into_owned());
        self.files.insert(path.to_owned(), id);
        id
    }

    pub(super) fn get(&self, id: TextId) -> Option<Arc<str>> {
        self.all.get(id.0 as usize).cloned()
    }

    /// How many bytes all of them take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn add(&mut self, text: String) -> TextId {
        let id = TextId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.bytes += text.len() as u64 + 16;
        self.all.push(text.into());
        id
    }
}
