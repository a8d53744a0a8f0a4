//! The libraries of a process: the key `libs`, and the address at which each module's code is
//! shown.
//!
//! Made once per process from the pool's modules; called by [`super::frames`] for every code frame.
//! A profile has one address space per process, but modules that were unloaded may have used the
//! same addresses as others. A module is shown at its own addresses, unless another module is shown
//! there already; then it is shown at free addresses beyond all that a program can have.
//!
//! Invariants: shown ranges do not overlap; all their addresses are exact in a viewer's numbers.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use crate::debug_id::{breakpad_id, code_id};
use crate::frame_names::module_name;
use profiler_core::ids::DefinitionId;
use profiler_core::internal::reader::{Definitions, ModuleDefinition};
use profiler_json::JsonWriter;

/// The first address beyond all that a program can map.
const FIRST_FREE: u64 = 1 << 48;
/// The largest safe integer of JavaScript.
const LAST: u64 = (1 << 53) - 1;
/// The distance between modules that are shown at free addresses, so that an address just beyond
/// one module is not inside another.
const GAP: u64 = 1 << 16;

/// Where a module is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    /// The address at which the module's address 0 is shown.
    base: u64,
    start: u64,
    end: u64,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Libs<'a> {
    /// Modules with a range of their own, by the start of the range.
    rows: BTreeMap<u64, (Shown, &'a ModuleDefinition)>,
    places: HashMap<DefinitionId, Shown>,
    next_free: u64,
}

impl<'a> Libs<'a> {
    pub(super) fn new(definitions: &'a Definitions) -> Self {
        let mut libs = Self {
            next_free: FIRST_FREE,
            ..Self::default()
        };
        for (id, module) in definitions.modules() {
            if let Some(shown) = libs.place(module) {
                libs.places.insert(id, shown);
                libs.rows.entry(shown.start).or_insert((shown, module));
            }
        }
        libs
    }

    /// The address at which code of a module is shown; `None` if there is none.
    pub(super) fn address(&self, module: DefinitionId, relative: u64) -> Option<u64> {
        let shown = self.places.get(&module)?;
        let address = shown.base.checked_add(relative)?;
        // A return address may be just after the module's last address.
        (shown.start..=shown.end)
            .contains(&address)
            .then_some(address)
    }

    /// Whether some module is shown at this address.
    pub(super) fn covers(&self, address: u64) -> bool {
        self.overlaps(address, address.saturating_add(1))
    }

    /// Writes the key `libs`, in the order of addresses.
    pub(super) fn write<W: Write>(&self, out: &mut JsonWriter<W>) {
        out.entry_list("libs", self.rows.values(), |(shown, module), out| {
            write_row(*shown, module, out)
        });
    }

    /// The range at which a module is shown; `None` if there is none. A module that was loaded
    /// again at the same addresses gets the same range.
    fn place(&mut self, module: &ModuleDefinition) -> Option<Shown> {
        let real = Shown {
            base: module.base,
            start: module.start,
            end: module.end,
        };
        let lead = real.start.checked_sub(real.base)?;
        let is_reload = |(shown, other): &(Shown, &ModuleDefinition)| {
            *shown == real && is_same_file(other, module)
        };
        if self.rows.get(&real.start).is_some_and(is_reload) {
            return Some(real);
        }
        if real.end <= FIRST_FREE && !self.overlaps(real.start, real.end) {
            return Some(real);
        }
        let start = self
            .next_free
            .max(FIRST_FREE)
            .checked_add(lead.checked_next_multiple_of(GAP)?)?;
        let end = start
            .checked_add(real.end.checked_sub(real.start)?)
            .filter(|end| *end <= LAST)?;
        self.next_free = end.checked_next_multiple_of(GAP)?.checked_add(GAP)?;
        Some(Shown {
            base: start.checked_sub(lead)?,
            start,
            end,
        })
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.rows
            .range(..end)
            .next_back()
            .is_some_and(|(_, (shown, _))| shown.end > start)
    }
}

fn is_same_file(a: &ModuleDefinition, b: &ModuleDefinition) -> bool {
    (&a.path, &a.build_id) == (&b.path, &b.build_id)
}

fn write_row<W: Write>(shown: Shown, module: &ModuleDefinition, out: &mut JsonWriter<W>) {
    let name = module_name(&module.path);
    out.begin_object();
    out.entry_u64("start", shown.start);
    out.entry_u64("end", shown.end);
    // Viewers compute the address of the module's address 0 as `start - offset`.
    out.entry_u64("offset", shown.start.saturating_sub(shown.base));
    out.entry_str("arch", std::env::consts::ARCH);
    out.entry_str("name", name);
    out.entry_str("path", &module.path);
    out.entry_str("debugName", name);
    out.entry_str("debugPath", &module.path);
    out.entry_str("breakpadId", &breakpad_id(&module.build_id));
    out.entry_str("codeId", &code_id(&module.build_id));
    out.end_object();
}
