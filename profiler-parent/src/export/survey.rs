//! The first look at a profile: all that threads refer to, wherever it stands in the file.
//!
//! Of threads nothing is kept but the addresses that want a name (Gecko form). Held afterwards: the tables that threads
//! share (processed form), the libraries, and the names that were found.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::raw::PausedRange;
use super::shared::SharedTables;
use super::tables::Tables;
use super::walk::{PartId, Visit};
use crate::reading::{AddressMap, Columns, Lib, Nameless, Namer, Number, Table, code_of};
use crate::symbols::SymbolOptions;

/// What a profile says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) product: Option<String>,
    /// Milliseconds.
    pub(super) interval: Option<f64>,
    /// Milliseconds since 1970.
    pub(super) start_time: Option<f64>,
    #[serde(rename = "startTimeAsClockMonotonicNanosecondsSinceBoot")]
    pub(super) start_monotonic_ns: Option<f64>,
    sample_units: Option<SampleUnits>,
    pub(super) preprocessed_profile_version: Option<f64>,
    marker_schema: Vec<Schema>,
    categories: Vec<Category>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SampleUnits {
    #[serde(rename = "threadCPUDelta")]
    cpu: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Category {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Schema {
    name: String,
    /// Gecko form.
    data: Vec<SchemaField>,
    /// Processed form.
    fields: Vec<SchemaField>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SchemaField {
    key: String,
    format: Value,
}

/// A field of a payload whose value is a place in the texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextField {
    pub(super) key: String,
    pub(super) flow: Option<Flow>,
}

/// What a flow does at a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Goes,
    Ends,
}

impl Meta {
    /// Nanoseconds in one unit of processor time; `None` if it is counted in something that is no time.
    pub(super) fn cpu_unit_ns(&self) -> Option<f64> {
        match self.sample_units.as_ref()?.cpu.as_deref()? {
            "ns" => Some(1.0),
            "µs" => Some(1e3),
            _ => None,
        }
    }

    /// What a sample that has none before it stands for, in nanoseconds.
    pub(super) fn interval_ns(&self) -> i64 {
        (self.interval.filter(|ms| ms.is_finite() && *ms > 0.0).unwrap_or(1.0) * 1e6) as i64
    }

    pub(super) fn category(&self, index: f64) -> &str {
        let index = crate::reading::as_index(index);
        index.and_then(|index| self.categories.get(index)).map_or("Other", |category| &category.name)
    }
}

/// One process's object.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) product: Option<String>,
    pub(super) start_time: Option<f64>,
    pub(super) libs: Vec<Lib>,
    pub(super) paused: Vec<PausedRange>,
    /// Texts of locations that may be addresses: whether as a caller's, and as the innermost.
    addresses: HashMap<String, [bool; 2]>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) meta: Meta,
    pub(super) has_meta: bool,
    pub(super) parts: Vec<Part>,
    pub(super) tables: Tables,
    pub(super) namer: Namer,
    wants_names: bool,
}

impl Survey {
    pub(super) fn new(wants_names: bool) -> Self {
        Self { wants_names, ..Self::default() }
    }

    /// Looks up what has no name. Once, at the end.
    pub(super) fn name(&mut self) {
        for part in &mut self.parts {
            let libs = AddressMap::of(&part.libs);
            for (text, kinds) in std::mem::take(&mut part.addresses) {
                let Some((lib, address)) = libs.find(&text) else { continue };
                for (is_leaf, wanted) in [false, true].into_iter().zip(kinds) {
                    if wanted {
                        self.namer.ask(lib, code_of(address, is_leaf));
                    }
                }
            }
        }
        if self.wants_names {
            self.namer.look_up(SymbolOptions::default());
        }
    }

    /// Libraries of which no address has a name.
    pub(super) fn into_nameless(self) -> Vec<Nameless> {
        self.namer.into_nameless()
    }

    /// How much later than the outermost process this one began to count, in milliseconds.
    pub(super) fn shift_ms(&self, part: PartId) -> f64 {
        let start = self.parts.get(part.0).and_then(|part| part.start_time);
        start.zip(self.meta.start_time).map_or(0.0, |(start, root)| start - root)
    }

    /// The fields of a type of payload that are places in the texts.
    pub(super) fn text_fields(&self) -> HashMap<String, Vec<TextField>> {
        let of = |schema: &Schema| {
            let fields = schema.data.iter().chain(&schema.fields).filter_map(text_field);
            (schema.name.clone(), fields.collect::<Vec<_>>())
        };
        self.meta.marker_schema.iter().map(of).filter(|(_, fields)| !fields.is_empty()).collect()
    }

    fn part(&mut self, part: PartId) -> Option<&mut Part> {
        self.parts.get_mut(part.0)
    }
}

fn text_field(field: &SchemaField) -> Option<TextField> {
    let flow = match field.format.as_str()? {
        "unique-string" => None,
        "flow-id" => Some(Flow::Goes),
        "terminating-flow-id" => Some(Flow::Ends),
        _ => return None,
    };
    Some(TextField { key: field.key.clone(), flow })
}

impl Visit for Survey {
    fn begin(&mut self, _: PartId) {
        self.parts.push(Part::default());
    }

    fn value<'de, D: Deserializer<'de>>(&mut self, at: PartId, key: &str, from: D) -> Result<(), D::Error> {
        match key {
            "meta" => {
                let meta = Meta::deserialize(from)?;
                if let Some(part) = self.part(at) {
                    (part.product, part.start_time) = (meta.product.clone(), meta.start_time);
                }
                if at == PartId(0) {
                    (self.meta, self.has_meta) = (meta, true);
                }
            }
            "libs" => {
                let libs = Vec::deserialize(from)?;
                if let Some(part) = self.part(at) {
                    part.libs = libs;
                }
            }
            "pausedRanges" => {
                let paused = Option::deserialize(from)?.unwrap_or_default();
                if let Some(part) = self.part(at) {
                    part.paused = paused;
                }
            }
            "shared" => self.tables = SharedTables::deserialize(from)?.into_tables(),
            _ => drop(IgnoredAny::deserialize(from)?),
        }
        Ok(())
    }

    fn thread<'de, D: Deserializer<'de>>(&mut self, at: PartId, from: D) -> Result<(), D::Error> {
        if !self.wants_names {
            IgnoredAny::deserialize(from)?;
            return Ok(());
        }
        let thread = Addresses.deserialize(from)?;
        if let Some(part) = self.part(at) {
            thread.note(&mut part.addresses);
        }
        Ok(())
    }
}

/// Of a thread what tells which addresses are wanted.
#[derive(Debug, Default)]
struct Located {
    samples: Table<1>,
    /// `prefix`, `frame`.
    stacks: Table<2>,
    frames: Table<1>,
    strings: Vec<String>,
}

impl Located {
    fn note(&self, addresses: &mut HashMap<String, [bool; 2]>) {
        let mut note = |stack: usize, kind: usize| {
            let text = self.stacks.index(1, stack).and_then(|frame| self.frames.index(0, frame));
            let text = text.and_then(|text| self.strings.get(text)).filter(|text| text.starts_with("0x"));
            if let Some(text) = text {
                let kinds = addresses.entry(text.clone()).or_default();
                kinds.iter_mut().skip(kind).take(1).for_each(|wanted| *wanted = true);
            }
        };
        let indexes = |column: &[f64]| column.iter().filter_map(|n| crate::reading::as_index(*n)).collect();
        let unique = |column: &[f64]| -> std::collections::BTreeSet<usize> { indexes(column) };
        let [callers, _] = &self.stacks.0;
        unique(callers).into_iter().for_each(|stack| note(stack, 0));
        let [leaves] = &self.samples.0;
        unique(leaves).into_iter().for_each(|stack| note(stack, 1));
    }
}

/// Reads a [`Located`].
struct Addresses;

impl<'de> DeserializeSeed<'de> for Addresses {
    type Value = Located;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Located, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Addresses {
    type Value = Located;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a thread")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Located, A::Error> {
        let mut thread = Located::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "samples" => thread.samples = map.next_value_seed(Columns([("stack", 0)]))?,
                "stackTable" => {
                    thread.stacks = map.next_value_seed(Columns([("prefix", 0), ("frame", 1)]))?
                }
                "frameTable" => thread.frames = map.next_value_seed(Columns([("location", 0)]))?,
                "stringTable" => thread.strings = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(thread)
    }
}

impl PausedRange {
    /// In nanoseconds; one without an end lasts for ever.
    pub(super) fn ns(&self) -> Option<(i64, i64)> {
        let ms = |at: Option<Number>| at.map(|at| at.0).filter(|ms| ms.is_finite());
        let start = ms(self.start_time).map_or(i64::MIN, |ms| (ms * 1e6) as i64);
        let end = ms(self.end_time).map_or(i64::MAX, |ms| (ms * 1e6) as i64);
        (start < end).then_some((start, end))
    }
}
