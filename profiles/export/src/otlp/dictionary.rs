//! The tables of a profile (`ProfilesDictionary`): each entry once, found by its content.
//!
//! Used by [`super::locations`] and [`super::samples`]. Invariants: entry 0 of each table is the
//! zero value; an index refers to an entry that is in the dictionary; the parts that were taken and
//! the encoded form are complete at any time. Memory holds locations and stacks, which may be long,
//! only in the encoded form.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use super::super::proto::Message;
use super::attributes::{number_value, text_value};
use super::identity::SpanRef;
use super::span_message::add_span_ref;

/// An index into a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TableIndex(u32);

impl TableIndex {
    /// The zero value of each table.
    pub(super) const ZERO: Self = Self(0);

    pub(super) const fn number(self) -> u64 {
        self.0 as u64
    }
}

/// Fields of `ProfilesDictionary`.
mod table {
    pub(super) const MAPPINGS: u64 = 1;
    pub(super) const LOCATIONS: u64 = 2;
    pub(super) const FUNCTIONS: u64 = 3;
    pub(super) const LINKS: u64 = 4;
    pub(super) const STRINGS: u64 = 5;
    pub(super) const ATTRIBUTES: u64 = 6;
    pub(super) const STACKS: u64 = 7;
}

/// A function of a location, with the line on which it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Line {
    pub(super) function: TableIndex,
    pub(super) line: u32,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FunctionRow {
    pub(super) name: TableIndex,
    pub(super) file: TableIndex,
    pub(super) start_line: u32,
}

/// A place in a file of code. The first line is that of the innermost function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LocationRow {
    pub(super) mapping: TableIndex,
    pub(super) address: u64,
    pub(super) lines: Vec<Line>,
}

/// A file of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MappingRow {
    pub(super) file: TableIndex,
    /// The attribute with its build id.
    pub(super) build_id: Option<TableIndex>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum AttributeValue {
    Text(String),
    Number(i64),
}

/// Identifies the content of an entry, with random keys: no author of a profile can produce two
/// contents with one identifier.
#[derive(Debug, Default)]
struct Fingerprints([RandomState; 2]);

type Fingerprint = [u64; 2];

impl Fingerprints {
    fn of(&self, content: &impl Hash) -> Fingerprint {
        let [first, second] = &self.0;
        [first.hash_one(content), second.hash_one(content)]
    }
}

/// The entries of one table.
#[derive(Debug)]
struct Entries<K> {
    field: u64,
    /// The number of entries, with the zero value.
    count: u32,
    known: HashMap<K, TableIndex>,
}

impl<K: Eq + Hash> Entries<K> {
    /// A table with the zero value.
    fn new(field: u64, encoded: &mut Message) -> Self {
        encoded.bytes(field, &[]);
        Self {
            field,
            count: 1,
            known: HashMap::new(),
        }
    }

    fn index(
        &mut self,
        key: K,
        encoded: &mut Message,
        encode: impl FnOnce(&K) -> Message,
    ) -> TableIndex {
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        encoded.message(self.field, &encode(&key));
        let next = TableIndex(self.count);
        self.count = self.count.saturating_add(1);
        self.known.insert(key, next);
        next
    }
}

/// The tables. See the [module](self).
#[derive(Debug)]
pub(super) struct Dictionary {
    encoded: Message,
    mappings: Entries<MappingRow>,
    locations: Entries<Fingerprint>,
    functions: Entries<FunctionRow>,
    links: Entries<SpanRef>,
    texts: HashMap<Box<str>, TableIndex>,
    attributes: Entries<(TableIndex, AttributeValue)>,
    stacks: Entries<Fingerprint>,
    fingerprints: Fingerprints,
}

impl Dictionary {
    pub(super) fn new() -> Self {
        let mut encoded = Message::default();
        encoded.bytes(table::STRINGS, b"");
        Self {
            mappings: Entries::new(table::MAPPINGS, &mut encoded),
            locations: Entries::new(table::LOCATIONS, &mut encoded),
            functions: Entries::new(table::FUNCTIONS, &mut encoded),
            links: Entries::new(table::LINKS, &mut encoded),
            texts: HashMap::from([("".into(), TableIndex::ZERO)]),
            attributes: Entries::new(table::ATTRIBUTES, &mut encoded),
            stacks: Entries::new(table::STACKS, &mut encoded),
            fingerprints: Fingerprints::default(),
            encoded,
        }
    }

    /// The message `ProfilesDictionary` without the parts that were taken.
    pub(super) const fn encoded(&self) -> &Message {
        &self.encoded
    }

    /// Takes the message. Later entries are in the next one, and decoders merge both.
    pub(super) fn take_encoded(&mut self) -> Message {
        std::mem::take(&mut self.encoded)
    }

    pub(super) fn text(&mut self, text: &str) -> TableIndex {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        self.encoded.bytes(table::STRINGS, text.as_bytes());
        let next = TableIndex(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.insert(text.into(), next);
        next
    }

    pub(super) fn attribute(&mut self, key: &str, value: AttributeValue) -> TableIndex {
        let key = self.text(key);
        self.attributes
            .index((key, value), &mut self.encoded, |(key, value)| {
                let value = match value {
                    AttributeValue::Text(text) => text_value(text),
                    AttributeValue::Number(number) => number_value(*number),
                };
                let mut row = Message::default();
                row.number(1, key.number());
                row.message(2, &value);
                row
            })
    }

    pub(super) fn link(&mut self, to: SpanRef) -> TableIndex {
        self.links.index(to, &mut self.encoded, |to| {
            let mut row = Message::default();
            add_span_ref(*to, &mut row);
            row
        })
    }

    pub(super) fn function(&mut self, row: FunctionRow) -> TableIndex {
        self.functions.index(row, &mut self.encoded, |row| {
            let mut message = Message::default();
            message.number(1, row.name.number());
            message.number(2, row.name.number());
            message.number(3, row.file.number());
            message.number(4, u64::from(row.start_line));
            message
        })
    }

    pub(super) fn mapping(&mut self, row: MappingRow) -> TableIndex {
        self.mappings.index(row, &mut self.encoded, |row| {
            let mut message = Message::default();
            // The mapping covers the whole range because addresses are relative.
            message.number(2, i64::MAX.unsigned_abs());
            message.number(4, row.file.number());
            if let Some(build_id) = row.build_id {
                message.numbers(5, &[build_id.number()]);
            }
            message
        })
    }

    pub(super) fn location(&mut self, row: &LocationRow) -> TableIndex {
        let key = self.fingerprints.of(row);
        self.locations.index(key, &mut self.encoded, |_| {
            let mut message = Message::default();
            message.number(1, row.mapping.number());
            message.number(2, row.address);
            for line in &row.lines {
                let mut place = Message::default();
                place.number(1, line.function.number());
                place.number(2, u64::from(line.line));
                message.message(3, &place);
            }
            message
        })
    }

    /// A stack of locations, the innermost first.
    pub(super) fn stack(&mut self, locations: &[TableIndex]) -> TableIndex {
        if locations.is_empty() {
            return TableIndex::ZERO;
        }
        let key = self.fingerprints.of(&locations);
        self.stacks.index(key, &mut self.encoded, |_| {
            let numbers = locations.iter().map(|location| location.number());
            let mut message = Message::default();
            message.numbers(1, &numbers.collect::<Vec<u64>>());
            message
        })
    }
}
