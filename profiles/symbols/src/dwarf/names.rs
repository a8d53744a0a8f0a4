//! Looks up the names of functions, also across entries.
//!
//! Used by the caller of [`super::walk`]. An entry of a function that was inlined, or defined
//! outside of its class, refers to another entry for its name: in the same unit, in another unit,
//! or in the file shared by several debug files.

use std::collections::HashMap;
use std::rc::Rc;

use gimli::{AttributeValue, DebugInfoOffset, Unit, UnitOffset, UnitRef};

use super::entry::DwarfEntry;
use super::sections::Slice;
use super::units::Units;
use super::work::Stop;
use crate::texts::{TextId, Texts};

/// Limit on the references followed from entry to entry.
const LONGEST_CHAIN: usize = 16;
/// Limit on the cached units that other units refer to.
const UNITS_KEPT: usize = 32;

/// A name, and whether it is the linkage name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: TextId,
    pub(super) of_linker: bool,
}

/// The file that contains an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Here,
    Shared,
}

/// A cache of function names.
#[derive(Debug)]
pub(super) struct Names<'u, 'a> {
    here: &'u Units<'a>,
    shared: Option<&'u Units<'a>>,
    known: HashMap<(Place, usize), Option<Name>>,
    units: HashMap<(Place, usize), Rc<Unit<Slice<'a>>>>,
}

impl<'u, 'a> Names<'u, 'a> {
    pub(super) fn new(here: &'u Units<'a>, shared: Option<&'u Units<'a>>) -> Self {
        Self {
            here,
            shared,
            known: HashMap::new(),
            units: HashMap::new(),
        }
    }

    /// The name of a function of the unit.
    pub(super) fn of(
        &mut self,
        entry: &DwarfEntry<'a>,
        unit: &Unit<Slice<'a>>,
        texts: &mut Texts,
    ) -> Option<Name> {
        let unit_ref = UnitRef::new(self.here.dwarf, unit);
        if entry.linkage_name.is_some() || entry.origin.is_none() {
            return own_name(entry, unit_ref, texts);
        }
        let target = self.target(entry.origin?, Place::Here, unit)?;
        if let Some(known) = self.known.get(&target) {
            return *known;
        }
        // The name in the entry itself is used if the referenced entry has none.
        let name = self
            .follow(target, texts)
            .ok()
            .flatten()
            .or_else(|| own_name(entry, unit_ref, texts));
        self.known.insert(target, name);
        name
    }

    fn follow(&mut self, mut at: (Place, usize), texts: &mut Texts) -> Result<Option<Name>, Stop> {
        let mut plain = None;
        for _ in 0..LONGEST_CHAIN {
            let (place, offset) = at;
            let Some(unit) = self.unit(place, offset)? else {
                break;
            };
            let Some(units) = self.units_of(place) else {
                break;
            };
            let Some(offset) = DebugInfoOffset(offset).to_unit_offset(&unit.header) else {
                break;
            };
            let unit_ref = UnitRef::new(units.dwarf, &unit);
            let entry = read(unit_ref, offset, units)?;
            match own_name(&entry, unit_ref, texts) {
                Some(name) if name.of_linker => return Ok(Some(name)),
                name => plain = plain.or(name),
            }
            let Some(next) = entry
                .origin
                .and_then(|origin| self.target(origin, place, &unit))
            else {
                break;
            };
            at = next;
        }
        Ok(plain)
    }

    fn units_of(&self, place: Place) -> Option<&'u Units<'a>> {
        match place {
            Place::Here => Some(self.here),
            Place::Shared => self.shared,
        }
    }

    /// The unit that contains an offset.
    fn unit(&mut self, place: Place, offset: usize) -> Result<Option<Rc<Unit<Slice<'a>>>>, Stop> {
        let Some(units) = self.units_of(place) else {
            return Ok(None);
        };
        let Some(index) = units.containing(offset) else {
            return Ok(None);
        };
        if let Some(unit) = self.units.get(&(place, index)) {
            return Ok(Some(Rc::clone(unit)));
        }
        let unit = Rc::new(units.load(index)?);
        if self.units.len() >= UNITS_KEPT {
            self.units.clear();
        }
        self.units.insert((place, index), Rc::clone(&unit));
        Ok(Some(unit))
    }

    /// The target of a reference.
    fn target(
        &self,
        value: AttributeValue<Slice<'a>>,
        place: Place,
        unit: &Unit<Slice<'a>>,
    ) -> Option<(Place, usize)> {
        match value {
            AttributeValue::UnitRef(offset) => {
                Some((place, offset.to_debug_info_offset(&unit.header)?.0))
            }
            AttributeValue::DebugInfoRef(offset) => Some((place, offset.0)),
            AttributeValue::DebugInfoRefSup(offset) if place == Place::Here => {
                Some((Place::Shared, offset.0))
            }
            _ => None,
        }
    }
}

fn read<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    at: UnitOffset,
    units: &Units<'a>,
) -> Result<DwarfEntry<'a>, Stop> {
    let mut entries = unit.entries_raw(Some(at))?;
    let abbreviation = entries
        .read_abbreviation()?
        .ok_or(gimli::Error::NoEntryAtGivenOffset(at.0 as u64))?;
    units.work.charge(1 + abbreviation.attributes().len())?;
    DwarfEntry::read(&mut entries, abbreviation, unit)
}

/// The name in the entry itself: the linkage name, otherwise the source name.
fn own_name<'a>(
    entry: &DwarfEntry<'a>,
    unit: UnitRef<'_, Slice<'a>>,
    texts: &mut Texts,
) -> Option<Name> {
    let text = |value: Option<AttributeValue<Slice<'a>>>| unit.attr_string(value?).ok();
    if let Some(name) = text(entry.linkage_name) {
        return Some(Name {
            text: texts.name(name.slice()),
            of_linker: true,
        });
    }
    Some(Name {
        text: texts.name(text(entry.name)?.slice()),
        of_linker: false,
    })
}
