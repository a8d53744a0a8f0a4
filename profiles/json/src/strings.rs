//! A profile's string table: every text once, numbered in order of first use.
//!
//! The profile writers intern names and texts while they write rows and stream the table out
//! after the last row. It differs from [`Interner`](super::interner::Interner) because texts have
//! different lengths: they lie end to end in one arena, and [`StringTable::bytes`] is what the
//! processed format bounds. The hash is keyed at random, because texts may come from a process
//! that tries to make them collide.
//!
//! Invariants: equal texts give equal ids; ids count up from 0 without gaps.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

use super::interner::ItemIndex;
use super::writer::JsonWriter;

/// Number of a text in its [`StringTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(u32);

impl StringId {
    /// The bare number, as rows hold it.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub struct StringTable {
    arena: String,
    /// Where each text ends in the arena. It begins where the previous text ends.
    ends: Vec<usize>,
    /// A part of each text's hash, to skip most comparisons.
    tags: Vec<u32>,
    index: ItemIndex,
    hasher: RandomState,
}

impl StringTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of different texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The approximate number of bytes of memory that the table takes.
    pub fn bytes(&self) -> usize {
        let vectors = size_of_val(self.ends.as_slice()) + size_of_val(self.tags.as_slice());
        self.arena.len() + vectors + self.index.bytes()
    }

    /// The number of `text`, if it was seen before.
    pub fn known(&self, text: &str) -> Option<StringId> {
        self.find(self.hasher.hash_one(text), text)
    }

    /// The number of `text`; adds `text` if it was not seen before.
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = self.hasher.hash_one(text);
        if let Some(id) = self.find(hash, text) {
            return id;
        }
        // 2^32 texts do not fit any pool; beyond them the last number is shared.
        let Ok(number) = u32::try_from(self.ends.len()) else {
            return StringId(u32::MAX);
        };
        self.arena.push_str(text);
        self.ends.push(self.arena.len());
        self.tags.push(tag(hash));
        let Self {
            arena,
            ends,
            index,
            hasher,
            ..
        } = self;
        index.add(number, |number| {
            hasher.hash_one(text_at(arena, ends, number).unwrap_or_default())
        });
        StringId(number)
    }

    /// The text with this number.
    pub fn get(&self, id: StringId) -> Option<&str> {
        text_at(&self.arena, &self.ends, id.0)
    }

    /// The text with this bare number, as rows hold it.
    pub fn text(&self, number: u32) -> Option<&str> {
        text_at(&self.arena, &self.ends, number)
    }

    /// All texts in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter())
            .map(|(start, end)| self.arena.get(start..*end).unwrap_or_default())
    }

    /// Writes the table as an array of strings.
    pub fn write_json<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.begin_array();
        self.iter().for_each(|text| out.string(text));
        out.end_array();
    }

    fn find(&self, hash: u64, text: &str) -> Option<StringId> {
        let tag = tag(hash);
        let is_equal = |number: u32| {
            self.tags.get(number as usize) == Some(&tag) && self.get(StringId(number)) == Some(text)
        };
        self.index.find(hash, is_equal).map(StringId)
    }
}

fn text_at<'a>(arena: &'a str, ends: &[usize], number: u32) -> Option<&'a str> {
    let index = number as usize;
    let end = *ends.get(index)?;
    let start = index
        .checked_sub(1)
        .and_then(|before| ends.get(before))
        .copied()
        .unwrap_or(0);
    arena.get(start..end)
}

/// The upper half of the hash. The lower half determines the place in the index.
const fn tag(hash: u64) -> u32 {
    let [_, _, _, _, a, b, c, d] = hash.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_follow_first_use_and_equal_texts_share_one(texts in prop::collection::vec("[a-cü]{0,4}", 0..150)) {
            let mut table = StringTable::new();
            let mut model: HashMap<String, u32> = HashMap::new();
            let mut order: Vec<String> = Vec::new();
            for text in &texts {
                let next = model.len() as u32;
                let expected = *model.entry(text.clone()).or_insert_with(|| { order.push(text.clone()); next });
                prop_assert_eq!(table.intern(text).get(), expected);
            }
            prop_assert_eq!(table.len(), order.len());
            prop_assert_eq!(table.iter().collect::<Vec<_>>(), order.iter().collect::<Vec<_>>());
            for (text, id) in &model {
                prop_assert_eq!(table.get(StringId(*id)), Some(text.as_str()));
            }
        }
    }

    #[test]
    fn a_large_table_finds_every_text_again() {
        let mut table = StringTable::new();
        let ids: Vec<_> = (0..20_000)
            .map(|number| table.intern(&number.to_string()))
            .collect();
        let again: Vec<_> = (0..20_000)
            .map(|number| table.intern(&number.to_string()))
            .collect();
        assert_eq!(ids, again);
        assert_eq!(table.len(), 20_000);
    }

    #[test]
    fn the_table_streams_out_as_an_array() {
        let mut table = StringTable::new();
        for text in ["GeckoMain", "", "a\"b", "GeckoMain"] {
            table.intern(text);
        }
        let mut out = JsonWriter::new(Vec::new());
        table.write_json(&mut out);
        assert_eq!(out.finish().unwrap(), br#"["GeckoMain","","a\"b"]"#);
        assert_eq!(table.get(StringId(3)), None);
    }
}
