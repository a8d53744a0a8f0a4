//! Walks through a profile's text in order: the outermost object, the objects of processes in it,
//! their threads.
//!
//! Used by every reader of a profile, so all number the processes in the same order. Holds no data.

use std::io::Read;

use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};

use super::json::{Items, List, Members, Object};
use super::parser::Stream;
use super::parser::{Extents, ParseError, Parser, Source};

/// Number of a process's object in the order of the file. The processed form has only the outermost
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId(
    /// Index into [`Survey::parts`](super::Survey::parts).
    pub usize,
);

/// Receives the content of a profile. Methods that are not implemented skip the value.
pub trait Visit {
    /// A process's object begins.
    fn begin(&mut self, _: PartId) {}

    /// A member of a process's object begins.
    fn key(&mut self, _: PartId, _: &str) {}

    /// A value that is neither the threads nor the processes.
    fn value<'de, D: Deserializer<'de>>(
        &mut self,
        _: PartId,
        _: &str,
        from: D,
    ) -> Result<(), D::Error> {
        IgnoredAny::deserialize(from).map(drop)
    }

    /// A thread.
    fn thread<'de, D: Deserializer<'de>>(&mut self, _: PartId, from: D) -> Result<(), D::Error> {
        IgnoredAny::deserialize(from).map(drop)
    }
}

/// Walks through a profile's text to its end.
pub fn walk<V: Visit>(text: impl Read, visit: &mut V) -> Result<(), ParseError> {
    walk_again(Stream(text), &Extents::default(), visit).map(drop)
}

/// Walks through a profile's text to its end, and jumps over the long values that an earlier walk
/// has skipped. Returns the length of the text, and the long values that were skipped.
pub(crate) fn walk_again<V: Visit>(
    text: impl Source,
    known: &Extents,
    visit: &mut V,
) -> Result<(u64, Extents), ParseError> {
    let mut from = Parser::new(text, known);
    let process = ProcessObject {
        visit,
        part: PartId(0),
        begun: &mut 0,
    };
    let walked = process.deserialize(&mut from);
    walked.map_err(|error| from.placed(error))?;
    from.end()
}

/// The object of a process.
struct ProcessObject<'v, V> {
    visit: &'v mut V,
    part: PartId,
    /// The number of objects that have begun.
    begun: &'v mut usize,
}

impl<'de, V: Visit> DeserializeSeed<'de> for ProcessObject<'_, V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<(), D::Error> {
        self.part = PartId(*self.begun);
        *self.begun += 1;
        self.visit.begin(self.part);
        Object(&mut self).deserialize(from)
    }
}

impl<V: Visit> Members for ProcessObject<'_, V> {
    const NAME: &'static str = "a profile";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        self.visit.key(self.part, key);
        let visit = &mut *self.visit;
        let part = self.part;
        match key {
            "threads" => map.next_value_seed(List(&mut Threads { visit, part })),
            "processes" => map.next_value_seed(List(&mut Processes {
                visit,
                begun: self.begun,
            })),
            key => map.next_value_seed(Member {
                visit,
                part,
                key: Some(key),
            }),
        }
    }
}

/// The threads of a process.
struct Threads<'v, V> {
    visit: &'v mut V,
    part: PartId,
}

impl<V: Visit> Items for Threads<'_, V> {
    const NAME: &'static str = "a list";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let thread = Member {
            visit: &mut *self.visit,
            part: self.part,
            key: None,
        };
        Ok(items.next_element_seed(thread)?.is_some())
    }
}

/// The child processes of a process.
struct Processes<'v, V> {
    visit: &'v mut V,
    begun: &'v mut usize,
}

impl<V: Visit> Items for Processes<'_, V> {
    const NAME: &'static str = "a list";

    fn item<'de, A: SeqAccess<'de>>(&mut self, items: &mut A) -> Result<bool, A::Error> {
        let process = ProcessObject {
            visit: &mut *self.visit,
            part: PartId(0),
            begun: &mut *self.begun,
        };
        Ok(items.next_element_seed(process)?.is_some())
    }
}

/// A value for the visitor.
struct Member<'v, 'k, V> {
    visit: &'v mut V,
    part: PartId,
    /// `None` for a thread.
    key: Option<&'k str>,
}

impl<'de, V: Visit> DeserializeSeed<'de> for Member<'_, '_, V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.key {
            Some(key) => self.visit.value(self.part, key, from),
            None => self.visit.thread(self.part, from),
        }
    }
}
