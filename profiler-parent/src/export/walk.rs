//! The way through a profile's text: the outermost object, the objects of processes in it, their threads.
//!
//! Both looks at a profile ([`super::survey`], [`super::recording`]) go this way, so they count processes in the same
//! order. Nothing is kept here.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Number of a process's object in the order of the file. In the processed form there is only the outermost one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PartId(pub(super) usize);

/// What is made of what stands there. Whatever it does not want it must skip.
pub(super) trait Visit {
    /// An object begins.
    fn begin(&mut self, part: PartId);
    /// A value that is neither the threads nor the processes.
    fn value<'de, D: Deserializer<'de>>(&mut self, part: PartId, key: &str, from: D) -> Result<(), D::Error>;
    /// A thread.
    fn thread<'de, D: Deserializer<'de>>(&mut self, part: PartId, from: D) -> Result<(), D::Error>;
}

/// Walks through a profile.
pub(super) struct Walk<'v, V> {
    visit: &'v mut V,
    begun: &'v mut usize,
}

impl<'v, V: Visit> Walk<'v, V> {
    /// `begun` is 0.
    pub(super) const fn new(visit: &'v mut V, begun: &'v mut usize) -> Self {
        Self { visit, begun }
    }

    const fn again(&mut self) -> Walk<'_, V> {
        Walk { visit: &mut *self.visit, begun: &mut *self.begun }
    }
}

impl<'de, V: Visit> DeserializeSeed<'de> for Walk<'_, V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, V: Visit> Visitor<'de> for Walk<'_, V> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let part = PartId(*self.begun);
        *self.begun += 1;
        self.visit.begin(part);
        while let Some(key) = map.next_key::<String>()? {
            let walk = self.again();
            match key.as_str() {
                "threads" => map.next_value_seed(Each { walk, part, what: What::Thread })?,
                "processes" => map.next_value_seed(Each { walk, part, what: What::Process })?,
                key => map.next_value_seed(Value { walk, part, key })?,
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum What {
    Thread,
    Process,
}

/// An array of threads or of processes.
struct Each<'v, V> {
    walk: Walk<'v, V>,
    part: PartId,
    what: What,
}

impl<'de, V: Visit> DeserializeSeed<'de> for Each<'_, V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, V: Visit> Visitor<'de> for Each<'_, V> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        loop {
            let walk = self.walk.again();
            let next = match self.what {
                What::Process => items.next_element_seed(walk)?,
                What::Thread => items.next_element_seed(Thread { walk, part: self.part })?,
            };
            if next.is_none() {
                return Ok(());
            }
        }
    }
}

struct Thread<'v, V> {
    walk: Walk<'v, V>,
    part: PartId,
}

impl<'de, V: Visit> DeserializeSeed<'de> for Thread<'_, V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.walk.visit.thread(self.part, from)
    }
}

struct Value<'v, 'k, V> {
    walk: Walk<'v, V>,
    part: PartId,
    key: &'k str,
}

impl<'de, V: Visit> DeserializeSeed<'de> for Value<'_, '_, V> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.walk.visit.value(self.part, self.key, from)
    }
}
