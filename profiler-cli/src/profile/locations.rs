//! What functions are called by the texts of one process's locations: in the Gecko format a name, or an address.
//!
//! Addresses are named with what is on this machine, as `profiler view` does it; one without a name is shown as
//! library and offset. A caller's address is where the call returns to, one byte beyond it.

use std::collections::HashMap;

use super::functions::{Cost, Function, Functions, StackCosts};
use super::thread::Thread;
use profiler_parent::internal::reading::{AddressMap, Lib, Namer, Table, code_of};

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
    use profiler_parent::internal::reading::Number;

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
}
