//! The functions around addresses, with what was inlined into them.
//!
//! Used by [`super`]. One pass over the entries of a unit, for all addresses of it at once. There is no recursion: entries
//! that enclose the present one are on a stack of ours. Invariant: the inlined functions of an address
//! are in the order of their nesting, the outermost first; of all addresses together they are no more than
//! [`super::work`] has places for.

use gimli::{EntriesRaw, Range, Unit, UnitRef};

use super::entry::Entry;
use super::sections::Slice;
use super::units::Units;
use super::work::Stop;
use crate::symbols::place::CodeRange;

/// Deepest inlining that is followed.
const DEEPEST: usize = 256;

/// A function or an inlined function that an address lies in, by its number in [`Walked::entries`].
pub(super) type EntryIndex = usize;

/// What encloses an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Enclosing {
    pub(super) function: Option<(EntryIndex, CodeRange)>,
    pub(super) inlined: Vec<EntryIndex>,
}

/// What was found in a unit.
#[derive(Debug)]
pub(super) struct Walked<'a> {
    pub(super) entries: Vec<Entry<'a>>,
    /// For each address.
    pub(super) enclosing: Vec<Enclosing>,
}

/// An entry that the present one lies in.
struct Open {
    depth: isize,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// None of the addresses lies in it.
    Elsewhere,
    /// So many inlined functions deep in the function.
    Inside { function: EntryIndex, level: usize },
}

struct Walk<'w, 'a> {
    unit: UnitRef<'w, Slice<'a>>,
    units: &'w Units<'a>,
    wanted: &'w [u64],
    open: Vec<Open>,
    walked: Walked<'a>,
}

/// Finds what encloses each of `wanted`, which are in order.
pub(super) fn walk<'a>(
    units: &Units<'a>,
    unit: &Unit<Slice<'a>>,
    wanted: &[u64],
) -> Result<Walked<'a>, Stop> {
    let walked = Walked { entries: Vec::new(), enclosing: vec![Enclosing::default(); wanted.len()] };
    let unit = UnitRef::new(units.dwarf, unit);
    let mut walk = Walk { unit, units, wanted, open: Vec::new(), walked };
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        walk.step(&mut entries)?;
    }
    Ok(walk.walked)
}

impl<'a> Walk<'_, 'a> {
    fn step(&mut self, entries: &mut EntriesRaw<'_, Slice<'a>>) -> Result<(), Stop> {
        let depth = entries.next_depth();
        let abbreviation = entries.read_abbreviation()?;
        self.units.work.charge(1 + abbreviation.map_or(0, |some| some.attributes().len()))?;
        let Some(abbreviation) = abbreviation else { return Ok(()) };
        while self.open.last().is_some_and(|open| open.depth >= depth) {
            self.open.pop();
        }
        let around = self.open.last().map(|open| open.kind);
        let kind = match (abbreviation.tag(), around) {
            (gimli::DW_TAG_subprogram, _) => self.function(Entry::read(entries, abbreviation, self.unit)?)?,
            (gimli::DW_TAG_inlined_subroutine, Some(Kind::Inside { function, level })) if level < DEEPEST => {
                self.inlined(Entry::read(entries, abbreviation, self.unit)?, function, level)?
            }
            (tag, _) => {
                entries.skip_attributes(abbreviation.attributes())?;
                if tag != gimli::DW_TAG_inlined_subroutine {
                    return Ok(());
                }
                Kind::Elsewhere
            }
        };
        if abbreviation.has_children() {
            self.open.push(Open { depth, kind });
        }
        Ok(())
    }

    /// Where in `wanted` the addresses of a stretch of code are.
    fn within(&self, range: Range) -> std::ops::Range<usize> {
        let first = self.wanted.partition_point(|address| *address < range.begin);
        let after = self.wanted.partition_point(|address| *address < range.end);
        first..after.max(first)
    }

    fn function(&mut self, entry: Entry<'a>) -> Result<Kind, Stop> {
        let (index, mut hit) = (self.walked.entries.len(), false);
        entry.ranges(self.unit, self.units.work, |range| {
            let within = self.within(range);
            self.units.work.charge(within.len())?;
            let code = CodeRange { start: range.begin, size: range.end - range.begin };
            for enclosing in self.walked.enclosing.get_mut(within).unwrap_or_default() {
                if enclosing.function.is_none() {
                    enclosing.function = Some((index, code));
                    hit = true;
                }
            }
            Ok(())
        })?;
        if !hit {
            return Ok(Kind::Elsewhere);
        }
        self.walked.entries.push(entry);
        Ok(Kind::Inside { function: index, level: 0 })
    }

    fn inlined(&mut self, entry: Entry<'a>, function: EntryIndex, level: usize) -> Result<Kind, Stop> {
        let (index, mut hit) = (self.walked.entries.len(), false);
        entry.ranges(self.unit, self.units.work, |range| {
            let within = self.within(range);
            self.units.work.charge(within.len())?;
            for enclosing in self.walked.enclosing.get_mut(within).unwrap_or_default() {
                let is_in_function = enclosing.function.is_some_and(|(of, _)| of == function);
                let is_next = is_in_function && enclosing.inlined.len() == level;
                if is_next && self.units.work.take_place() {
                    enclosing.inlined.push(index);
                    hit = true;
                }
            }
            Ok(())
        })?;
        if !hit {
            return Ok(Kind::Elsewhere);
        }
        self.walked.entries.push(entry);
        Ok(Kind::Inside { function, level: level + 1 })
    }
}
