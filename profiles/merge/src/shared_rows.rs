//! The shared tables of one input, as its file has them: columns of numbers.
//!
//! Used by the first pass. Rows are made of the columns in [`super::tables`]. Invariant: a column
//! that is not known is an error, because its contents could not be merged.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use profiler_reader::{Members, Object, as_index, column};

/// The columns of one table. Missing columns are empty.
#[derive(Debug)]
pub(super) struct RawColumns<const N: usize> {
    names: [&'static str; N],
    columns: [Vec<f64>; N],
}

impl<const N: usize> RawColumns<N> {
    const fn new(names: [&'static str; N]) -> Self {
        Self {
            names,
            columns: [const { Vec::new() }; N],
        }
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.columns.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// A row, with a place of a value for each column.
    pub(super) fn row(&self, row: usize) -> RawRow<N> {
        RawRow(std::array::from_fn(|place| {
            let column = self.columns.get(place);
            let value = column.and_then(|column| column.get(row));
            value.copied().unwrap_or(f64::NAN)
        }))
    }
}

/// The values of one row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawRow<const N: usize>([f64; N]);

impl<const N: usize> RawRow<N> {
    fn value(&self, place: usize) -> f64 {
        self.0.get(place).copied().unwrap_or(f64::NAN)
    }

    /// A number; `None` for null and -1.
    pub(super) fn number(&self, place: usize) -> Option<u32> {
        let index = as_index(self.value(place))?;
        u32::try_from(index).ok()
    }

    /// An address, or another number that may be large; -1 for none.
    pub(super) fn wide(&self, place: usize) -> i64 {
        let value = self.value(place);
        if value >= 0.0 { value as i64 } else { -1 }
    }

    pub(super) fn flag(&self, place: usize) -> bool {
        self.value(place) == 1.0
    }

    /// A row of another table, of which `numbers` has the new numbers.
    pub(super) fn refer(
        &self,
        place: usize,
        numbers: &[u32],
        what: &str,
    ) -> Result<Option<u32>, String> {
        let Some(index) = as_index(self.value(place)) else {
            return Ok(None);
        };
        let known = numbers.get(index).copied().map(Some);
        let count = numbers.len();
        known.ok_or_else(|| format!("a table refers to {what} {index}, but there are {count}"))
    }

    /// Like [`Self::refer`], for a reference that each row must have.
    pub(super) fn refer_always(
        &self,
        place: usize,
        numbers: &[u32],
        what: &str,
    ) -> Result<u32, String> {
        let known = self.refer(place, numbers, what)?;
        known.ok_or_else(|| format!("a row of a table has no {what}"))
    }
}

/// All shared tables of an input. The order of the columns is that of [`super::tables`].
#[derive(Debug)]
pub(super) struct RawShared {
    pub(super) stacks: RawColumns<2>,
    pub(super) frames: RawColumns<9>,
    pub(super) funcs: RawColumns<7>,
    pub(super) resources: RawColumns<4>,
    pub(super) natives: RawColumns<4>,
    pub(super) sources: RawColumns<1>,
    /// The column `uuid` of the sources.
    pub(super) source_ids: Vec<Option<Box<str>>>,
    pub(super) strings: Vec<Box<str>>,
}

impl Default for RawShared {
    fn default() -> Self {
        Self {
            stacks: RawColumns::new(["frame", "prefix"]),
            frames: RawColumns::new([
                "address",
                "inlineDepth",
                "category",
                "subcategory",
                "func",
                "nativeSymbol",
                "innerWindowID",
                "line",
                "column",
            ]),
            funcs: RawColumns::new([
                "name",
                "isJS",
                "relevantForJS",
                "resource",
                "source",
                "lineNumber",
                "columnNumber",
            ]),
            resources: RawColumns::new(["lib", "name", "host", "type"]),
            natives: RawColumns::new(["libIndex", "address", "name", "functionSize"]),
            sources: RawColumns::new(["filename"]),
            source_ids: Vec::new(),
            strings: Vec::new(),
        }
    }
}

impl<const N: usize> Members for RawColumns<N> {
    const NAME: &'static str = "a table";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        let place = self.names.iter().position(|name| *name == key);
        match place.and_then(|place| self.columns.get_mut(place)) {
            Some(values) => *values = column(map)?,
            None => map.next_value_seed(NoColumn(key))?,
        }
        Ok(())
    }
}

/// The table of sources.
struct Sources<'s>(&'s mut RawShared);

impl Members for Sources<'_> {
    const NAME: &'static str = "the table of sources";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "uuid" => self.0.source_ids = map.next_value()?,
            _ => self.0.sources.member(key, map)?,
        }
        Ok(())
    }
}

impl Members for RawShared {
    const NAME: &'static str = "shared tables";

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "stackTable" => map.next_value_seed(Object(&mut self.stacks)),
            "frameTable" => map.next_value_seed(Object(&mut self.frames)),
            "funcTable" => map.next_value_seed(Object(&mut self.funcs)),
            "resourceTable" => map.next_value_seed(Object(&mut self.resources)),
            "nativeSymbols" => map.next_value_seed(Object(&mut self.natives)),
            "sources" => map.next_value_seed(Object(&mut Sources(self))),
            "stringArray" => {
                self.strings = map.next_value()?;
                Ok(())
            }
            key => map.next_value_seed(NoColumn(key)),
        }
    }
}

/// Passes over a member that is no column, such as the length of a table.
struct NoColumn<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for NoColumn<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl NoColumn<'_> {
    fn unknown<E: serde::de::Error>(&self) -> E {
        E::custom(format!("the shared tables have the unknown `{}`", self.0))
    }
}

impl<'de> Visitor<'de> for NoColumn<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the length of a table")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        match items.next_element::<IgnoredAny>()? {
            Some(_) => Err(self.unknown()),
            None => Ok(()),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(A::Error::custom(self.unknown::<A::Error>()))
    }
}
