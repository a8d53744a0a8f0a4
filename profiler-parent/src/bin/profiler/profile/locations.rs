//! What functions are called by the texts of one process's locations: in the Gecko format a name, or an address.
//!
//! Addresses are named with what is on this machine, as `profiler view` does it; one without a name is shown as
//! library and offset. A caller's address is where the call returns to, one byte beyond it.

use std::collections::HashMap;

use serde::Deserialize;

use super::functions::{Cost, Function, Functions, StackCosts};
use super::namer::Namer;
use super::table::{Number, Table};
use super::thread::Thread;

/// Where a library lay in its process, and which it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lib {
    pub(super) name: String,
    pub(super) path: String,
    #[serde(rename = "codeId")]
    pub(super) code_id: Option<String>,
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
    texts: Vec<String>,
    numbers: HashMap<String, usize>,
    threads: Vec<Tables>,
    pub(super) all: Cost,
}

/// What is kept of a thread.
#[derive(Debug)]
struct Tables {
    costs: StackCosts,
    stacks: Table<3>,
    /// The text of each frame, by its number.
    frames: Vec<Option<usize>>,
}

impl Locations {
    /// Adds a thread.
    pub(super) fn add(&mut self, thread: Thread) {
        let [prefixes, frames, offsets] = &thread.stacks.0;
        let rows = prefixes.len().max(frames.len()).max(offsets.len());
        let costs = StackCosts::of(&thread.samples, rows);
        self.all += costs.all;
        let [locations] = &thread.locations.0;
        let frames = (0..locations.len()).map(|frame| {
            let text = thread.strings.get(thread.locations.index(0, frame)?)?;
            Some(self.number(text))
        });
        let frames = frames.collect();
        self.threads.push(Tables { costs, stacks: thread.stacks, frames });
    }

    fn number(&mut self, text: &str) -> usize {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let next = self.texts.len();
        self.texts.push(text.to_owned());
        self.numbers.insert(text.to_owned(), next);
        next
    }

    /// Asks for the names of all addresses.
    pub(super) fn ask(&self, libs: &[Lib], namer: &mut Namer) {
        let libs = AddressMap::of(libs);
        for Tables { costs, stacks, frames } in &self.threads {
            costs.for_each_frame(stacks, |frame, is_leaf| {
                let text = frames.get(frame).copied().flatten().and_then(|text| self.texts.get(text));
                if let Some((lib, address)) = text.and_then(|text| libs.find(text)) {
                    namer.ask(lib, code_of(address, is_leaf));
                }
            });
        }
    }

    /// Adds them to the functions of all processes.
    pub(super) fn count(&self, libs: &[Lib], namer: &Namer, functions: &mut Functions) {
        let libs = AddressMap::of(libs);
        let (mut all, mut numbers) = (Vec::new(), HashMap::new());
        let mut at = |text: &str, is_leaf: bool| -> Vec<usize> {
            let number = |function: Function| {
                let next = all.len();
                *numbers.entry(function).or_insert_with_key(|function| {
                    all.push(function.clone());
                    next
                })
            };
            located(text, is_leaf, &libs, namer).into_iter().map(number).collect()
        };
        let places: Vec<[Vec<usize>; 2]> =
            self.texts.iter().map(|text| [false, true].map(|is_leaf| at(text, is_leaf))).collect();
        for Tables { costs, stacks, frames } in &self.threads {
            let functions_of = |frame: usize, is_leaf: bool| {
                let text = frames.get(frame).copied().flatten();
                let found = text.and_then(|text| places.get(text)?.get(usize::from(is_leaf)));
                found.into_iter().flatten().copied()
            };
            for (function, costs) in costs.by_function(stacks, functions_of) {
                if let Some(function) = all.get(function) {
                    functions.add(function.clone(), costs);
                }
            }
        }
    }
}

/// The libraries of a process by where they begin.
#[derive(Debug)]
struct AddressMap<'l>(Vec<(f64, &'l Lib)>);

/// So many libraries before an address are tried. Mappings do not overlap, but the spans of two libraries may.
const MOST_TRIED: usize = 8;

impl<'l> AddressMap<'l> {
    fn of(libs: &'l [Lib]) -> Self {
        let start = |lib: &Lib| lib.start.map(|start| start.0).filter(|start| start.is_finite());
        let mut libs: Vec<_> = libs.iter().filter_map(|lib| Some((start(lib)?, lib))).collect();
        libs.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        Self(libs)
    }

    /// The address that a text is, and the library that it lies in.
    fn find(&self, text: &str) -> Option<(&'l Lib, u64)> {
        let digits = text.strip_prefix("0x").filter(|digits| digits.len() <= 16)?;
        let address = u64::from_str_radix(digits, 16).ok()? as f64; // exact below 2^53, where all code of user space is
        let beyond = self.0.partition_point(|(start, _)| *start <= address);
        let mut before = self.0.get(..beyond)?.iter().rev().take(MOST_TRIED);
        before.find_map(|(_, lib)| Some((*lib, lib.relative(address)? as u64)))
    }
}

/// The address of the code that ran.
const fn code_of(address: u64, is_leaf: bool) -> u64 {
    if is_leaf { address } else { address.saturating_sub(1) }
}

/// The functions at a location, the innermost first.
fn located(text: &str, is_leaf: bool, libs: &AddressMap<'_>, namer: &Namer) -> Vec<Function> {
    let Some((lib, address)) = libs.find(text) else {
        return vec![Function { name: text.to_owned(), library: None }];
    };
    let library = Some(lib.name.clone());
    let names = namer.names(lib, code_of(address, is_leaf));
    if names.is_empty() {
        return vec![Function { name: format!("{}+{address:#x}", lib.name), library }];
    }
    names.into_iter().map(|name| Function { name, library: library.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_is_library_and_offset() {
        let number = |number| Some(Number(number));
        let (start, end, offset) = (number(4096.0), number(8192.0), number(256.0));
        let lib = Lib { name: "libx.so".into(), start, end, offset, ..Lib::default() };
        let libs = AddressMap::of(std::slice::from_ref(&lib));
        let name = |text| located(text, true, &libs, &Namer::default()).remove(0).name;
        assert_eq!(name("0x1010"), "libx.so+0x110");
        for same in ["0x2000", "0xfff", "0xnot", "main", "0x11112222333344445"] {
            assert_eq!(name(same), same);
        }
    }

    #[test]
    fn an_address_is_found_in_its_library_whatever_order_they_are_in() {
        let lib = |name: &str, start: f64, end: f64| Lib {
            name: name.into(),
            start: Some(Number(start)),
            end: Some(Number(end)),
            ..Lib::default()
        };
        let nowhere = Lib { name: "nowhere".into(), ..Lib::default() };
        let libs = [lib("c", 48.0, 64.0), nowhere, lib("outer", 0.0, 64.0), lib("a", 16.0, 32.0)];
        let map = AddressMap::of(&libs);
        let found = |text| map.find(text).map(|(lib, address)| (lib.name.as_str(), address));
        assert_eq!(found("0x10"), Some(("a", 0)));
        assert_eq!(found("0x20"), Some(("outer", 32)), "between the others, which lie in it");
        assert_eq!(found("0x3f"), Some(("c", 15)));
        assert_eq!(found("0x40"), None);
    }
}
