//! What functions are called: by the texts of one process's locations, or by the tables that all share.
//!
//! An address without a name is shown as library and offset.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::functions::{Cost, Costs, Function, Functions, STACKS, StackCosts};
use super::table::{Columns, Number, Table};
use super::thread::Thread;

/// Where a library lay in its process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lib {
    name: String,
    start: Option<Number>,
    end: Option<Number>,
    offset: Option<Number>,
}

impl Lib {
    /// What an address is to it, if it lies in it.
    fn relative(&self, address: f64) -> Option<f64> {
        let number = |number: &Option<Number>| number.map_or(f64::NAN, |number| number.0);
        let (start, end) = (number(&self.start), number(&self.end));
        let offset = number(&self.offset);
        let offset = if offset.is_finite() { offset } else { 0.0 };
        (address >= start && address < end).then_some(address - start + offset)
    }
}

/// The functions of a process whose threads have tables of their own, by the texts of their locations.
#[derive(Debug, Default)]
pub(super) struct Locations {
    costs: HashMap<String, Costs>,
    pub(super) all: Cost,
}

impl Locations {
    /// Adds a thread.
    pub(super) fn add(&mut self, thread: &Thread) {
        let mut stacks = StackCosts::default();
        stacks.add(&thread.samples);
        self.all += stacks.all;
        for (place, costs) in stacks.by_function(&thread.stacks, |frame| thread.locations.index(0, frame)) {
            if let Some(text) = thread.strings.get(place) {
                *self.costs.entry(text.clone()).or_default() += costs;
            }
        }
    }

    /// Adds them to the functions of all processes.
    pub(super) fn count(&self, libs: &[Lib], functions: &mut Functions) {
        for (text, costs) in &self.costs {
            functions.add(located(text, libs), *costs);
        }
    }
}

/// The function at a location: an address, or a name.
fn located(text: &str, libs: &[Lib]) -> Function {
    let named = || Function { name: text.to_owned(), library: None };
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() <= 16);
    let Some(address) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else {
        return named();
    };
    let address = address as f64; // exact below 2^53, where all code of user space is
    let found = libs.iter().find_map(|lib| Some((lib, lib.relative(address)?)));
    found.map_or_else(named, |(lib, relative)| Function {
        name: format!("{}+{:#x}", lib.name, relative as u64),
        library: Some(lib.name.clone()),
    })
}

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
        for (place, costs) in costs.by_function(&self.stacks, |frame| self.frames.index(0, frame)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_is_library_and_offset() {
        let number = |number| Some(Number(number));
        let lib =
            Lib { name: "libx.so".into(), start: number(4096.0), end: number(8192.0), offset: number(256.0) };
        let name = |text| located(text, std::slice::from_ref(&lib)).name;
        assert_eq!(name("0x1010"), "libx.so+0x110");
        for same in ["0x2000", "0xfff", "0xnot", "main", "0x11112222333344445"] {
            assert_eq!(name(same), same);
        }
    }
}
