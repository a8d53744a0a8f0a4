//! What functions are called by the tables that all threads share in the processed form.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::functions::{Function, Functions, STACKS, StackCosts};
use profiler_parent::internal::reading::{Columns, Table};

/// The tables that all threads share in the processed form.
#[derive(Debug, Default)]
pub(super) struct Shared {
    stacks: Table<3>,
    /// The function of a frame.
    frames: Table<1>,
    /// Name, resource, and which of the columns mean something (a late addition).
    functions: Table<3>,
    /// The name of a resource.
    resources: Table<1>,
    strings: Vec<String>,
}

/// In the flags of a function: it has a resource.
const HAS_RESOURCE: usize = 4;

impl Shared {
    /// Adds what each function costs.
    pub(super) fn count(&self, costs: &StackCosts, functions: &mut Functions) {
        // Functions that look the same are one: on a stack they count once.
        let mut first = HashMap::new();
        let looks = |place| (self.functions.index(0, place), self.functions.index(1, place));
        let one: Vec<usize> =
            (0..self.functions.0[0].len()).map(|place| *first.entry(looks(place)).or_insert(place)).collect();
        let function_of = |frame| self.frames.index(0, frame).and_then(|place| one.get(place).copied());
        for (place, costs) in costs.by_function(&self.stacks, |frame, _| function_of(frame)) {
            if let Some(function) = self.function(place) {
                functions.add(function, costs);
            }
        }
    }

    fn function(&self, place: usize) -> Option<Function> {
        let text = |place: Option<usize>| self.strings.get(place?).cloned();
        let name = text(self.functions.index(0, place))?;
        let has_resource = self.functions.index(2, place).is_none_or(|flags| flags & HAS_RESOURCE != 0);
        let resource = self.functions.index(1, place).filter(|_| has_resource);
        let library = text(resource.and_then(|resource| self.resources.index(0, resource)));
        Some(Function { name, library })
    }
}

impl<'de> Deserialize<'de> for Shared {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(SharedVisitor)
    }
}

struct SharedVisitor;

impl<'de> Visitor<'de> for SharedVisitor {
    type Value = Shared;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("shared tables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shared, A::Error> {
        const FUNCTIONS: [(&str, usize); 3] =
            [("name", usize::MAX), ("resource", usize::MAX), ("flags", usize::MAX)];
        let mut shared = Shared::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "stackTable" => shared.stacks = map.next_value_seed(Columns(STACKS))?,
                "frameTable" => shared.frames = map.next_value_seed(Columns([("func", usize::MAX)]))?,
                "funcTable" => shared.functions = map.next_value_seed(Columns(FUNCTIONS))?,
                "resourceTable" => {
                    shared.resources = map.next_value_seed(Columns([("name", usize::MAX)]))?;
                }
                "stringArray" => shared.strings = map.next_value()?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(shared)
    }
}
