//! Finds the functions around addresses, and the functions inlined into them.
//!
//! Used by [`super`]. It passes once over the entries of a unit, for all addresses in it, without
//! recursion: the enclosing entries are on an explicit stack. Invariant: the inlined functions of
//! an address are ordered by nesting, the outermost first; their total number over all addresses is
//! at most the number of places in [`super::work`].

use gimli::{EntriesRaw, Range, Unit, UnitRef};

use super::entry::DwarfEntry;
use super::sections::Slice;
use super::units::Units;
use super::work::Stop;
use crate::place::CodeRange;

/// Limit on the depth of inlining.
const DEEPEST: usize = 256;

/// The index of a function or an inlined function in [`Walked::entries`].
pub(super) type EntryIndex = usize;

/// The functions that enclose an address.
#[derive(Clone, Debug, Default)]
pub(super) struct Enclosing {
    pub(super) function: Option<(EntryIndex, CodeRange)>,
    pub(super) inlined: Vec<EntryIndex>,
}

/// The result for a unit.
#[derive(Debug)]
pub(super) struct Walked<'a> {
    pub(super) entries: Vec<DwarfEntry<'a>>,
    /// One per address.
    pub(super) enclosing: Vec<Enclosing>,
}

/// An entry that encloses the current one.
struct Open {
    depth: isize,
    kind: ScopeKind,
}

#[derive(Clone, Copy)]
enum ScopeKind {
    /// Contains none of the addresses.
    Elsewhere,
    /// Inside a function, within `level` inlined functions.
    Inside { function: EntryIndex, level: usize },
}

struct Walk<'w, 'a> {
    unit: UnitRef<'w, Slice<'a>>,
    units: &'w Units<'a>,
    wanted: &'w [u64],
    open: Vec<Open>,
    walked: Walked<'a>,
}

/// Finds the functions that enclose each of the sorted addresses `wanted`.
pub(super) fn walk<'a>(
    units: &Units<'a>,
    unit: &Unit<Slice<'a>>,
    wanted: &[u64],
) -> Result<Walked<'a>, Stop> {
    let walked = Walked {
        entries: Vec::new(),
        enclosing: vec![Enclosing::default(); wanted.len()],
    };
    let unit = UnitRef::new(units.dwarf, unit);
    let mut walk = Walk {
        unit,
        units,
        wanted,
        open: Vec::new(),
        walked,
    };
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
        self.units
            .work
            .charge(1 + abbreviation.map_or(0, |some| some.attributes().len()))?;
        let Some(abbreviation) = abbreviation else {
            return Ok(());
        };
        while self.open.last().is_some_and(|open| open.depth >= depth) {
            self.open.pop();
        }
        let around = self.open.last().map(|open| open.kind);
        let kind = match (abbreviation.tag(), around) {
            (gimli::DW_TAG_subprogram, _) => {
                self.function(DwarfEntry::read(entries, abbreviation, self.unit)?)?
            }
            (gimli::DW_TAG_inlined_subroutine, Some(ScopeKind::Inside { function, level }))
                if level < DEEPEST =>
            {
                self.inlined(
                    DwarfEntry::read(entries, abbreviation, self.unit)?,
                    function,
                    level,
                )?
            }
            (tag, _) => {
                entries.skip_attributes(abbreviation.attributes())?;
                if tag != gimli::DW_TAG_inlined_subroutine {
                    return Ok(());
                }
                ScopeKind::Elsewhere
            }
        };
        if abbreviation.has_children() {
            self.open.push(Open { depth, kind });
        }
        Ok(())
    }

    /// The range of indices in `wanted` of the addresses within a code range.
    fn within(&self, range: Range) -> std::ops::Range<usize> {
        let first = self
            .wanted
            .partition_point(|address| *address < range.begin);
        let after = self.wanted.partition_point(|address| *address < range.end);
        first..after.max(first)
    }

    fn function(&mut self, entry: DwarfEntry<'a>) -> Result<ScopeKind, Stop> {
        let index = self.walked.entries.len();
        let mut hit = false;
        entry.ranges(self.unit, self.units.work, |range| {
            let within = self.within(range);
            self.units.work.charge(within.len())?;
            let code = CodeRange {
                start: range.begin,
                size: range.end - range.begin,
            };
            for enclosing in self.walked.enclosing.get_mut(within).unwrap_or_default() {
                if enclosing.function.is_none() {
                    enclosing.function = Some((index, code));
                    hit = true;
                }
            }
            Ok(())
        })?;
        if !hit {
            return Ok(ScopeKind::Elsewhere);
        }
        self.walked.entries.push(entry);
        Ok(ScopeKind::Inside {
            function: index,
            level: 0,
        })
    }

    fn inlined(
        &mut self,
        entry: DwarfEntry<'a>,
        function: EntryIndex,
        level: usize,
    ) -> Result<ScopeKind, Stop> {
        let index = self.walked.entries.len();
        let mut hit = false;
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
            return Ok(ScopeKind::Elsewhere);
        }
        self.walked.entries.push(entry);
        Ok(ScopeKind::Inside {
            function,
            level: level + 1,
        })
    }
}
