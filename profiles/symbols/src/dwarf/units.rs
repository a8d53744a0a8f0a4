//! The units of a file: about one per compiled source file.
//!
//! Used by [`super`]. All headers are read at once, contents on demand. Invariants: tables of
//! abbreviations never overlap, so that reading all of them is one pass over their section; the
//! sizes of a unit's root and of the header of its line program are checked before they are read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugInfoOffset,
    DebugLineOffset, Dwarf, Reader, Section, Unit, UnitHeader, UnitType,
};

use super::sections::Slice;
use super::work::{Stop, Work};

/// Limit on a table of abbreviations, in bytes.
const LONGEST_TABLE: usize = 1 << 20;
/// Limit on the header of a line program, in bytes.
const LONGEST_LINE_HEADER: usize = 4 << 20;
/// Limit on the attributes of a unit's root.
const MAX_ATTRIBUTES: usize = 256;
/// Limit on the cached tables of abbreviations.
const TABLES_KEPT: usize = 1024;

/// All units of a file.
#[derive(Debug)]
pub(super) struct Units<'a> {
    pub(super) dwarf: &'a Dwarf<Slice<'a>>,
    pub(super) work: &'a Work,
    /// The offsets of the units, sorted.
    offsets: Rc<[usize]>,
    /// The offsets of the tables of abbreviations, sorted, and the end of the last table.
    bounds: Rc<[usize]>,
    tables: Rc<RefCell<HashMap<usize, Arc<Abbreviations>>>>,
}

impl<'a> Units<'a> {
    /// Reads all headers, up to the first that is damaged.
    pub(super) fn new(dwarf: &'a Dwarf<Slice<'a>>, work: &'a Work) -> Self {
        let mut offsets = Vec::new();
        let mut bounds = vec![dwarf.debug_abbrev.reader().len()];
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            if work.charge(1).is_err() {
                break;
            }
            bounds.push(header.debug_abbrev_offset().0);
            if let Some(offset) = header.debug_info_offset() {
                offsets.push(offset.0);
            }
        }
        bounds.sort_unstable();
        bounds.dedup();
        Self {
            dwarf,
            work,
            offsets: offsets.into(),
            bounds: bounds.into(),
            tables: Rc::default(),
        }
    }

    /// The same units, read from another view of the same sections.
    pub(super) fn seen_by<'b>(&self, dwarf: &'b Dwarf<Slice<'b>>, work: &'b Work) -> Units<'b> {
        let offsets = Rc::clone(&self.offsets);
        let bounds = Rc::clone(&self.bounds);
        let tables = Rc::clone(&self.tables);
        Units {
            dwarf,
            work,
            offsets,
            bounds,
            tables,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// The index of the unit that contains an offset of the section.
    pub(super) fn containing(&self, offset: usize) -> Option<usize> {
        self.offsets
            .partition_point(|start| *start <= offset)
            .checked_sub(1)
    }

    fn header(&self, index: usize) -> Result<UnitHeader<Slice<'a>>, Stop> {
        let offset = self
            .offsets
            .get(index)
            .ok_or(gimli::Error::MissingUnitDie)?;
        Ok(self.dwarf.unit_header(DebugInfoOffset(*offset))?)
    }

    /// Whether a unit only describes types, which have no code.
    pub(super) fn is_of_types(&self, index: usize) -> bool {
        self.header(index).is_ok_and(|header| {
            matches!(
                header.type_(),
                UnitType::Type { .. } | UnitType::SplitType { .. }
            )
        })
    }

    /// Reads a unit's root and what it refers to.
    pub(super) fn load(&self, index: usize) -> Result<Unit<Slice<'a>>, Stop> {
        let header = self.header(index)?;
        let table = self.table(header.debug_abbrev_offset().0)?;
        self.check_root(&header, &table)?;
        Ok(Unit::new_with_abbreviations(self.dwarf, header, table)?)
    }

    fn check_root(
        &self,
        header: &UnitHeader<Slice<'a>>,
        table: &Abbreviations,
    ) -> Result<(), Stop> {
        let mut root = header.entries_raw(table, None)?;
        let abbreviation = root
            .read_abbreviation()?
            .ok_or(gimli::Error::MissingUnitDie)?;
        let attributes = abbreviation.attributes();
        self.work.charge(16 + attributes.len())?;
        if attributes.len() > MAX_ATTRIBUTES {
            return Err(Stop::Absurd);
        }
        for attribute in attributes {
            let attribute = root.read_attribute(*attribute)?;
            if let (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(at)) =
                (attribute.name(), attribute.value())
            {
                self.check_line_header(at)?;
            }
        }
        Ok(())
    }

    fn check_line_header(&self, at: DebugLineOffset<usize>) -> Result<(), Stop> {
        let mut input = *self.dwarf.debug_line.reader();
        input.skip(at.0)?;
        let (_, format) = input.read_initial_length()?;
        if input.read_u16()? >= 5 {
            input.skip(2)?; // the sizes of an address and of a segment
        }
        let len = input.read_length(format)?;
        self.work.charge(len)?;
        if len > LONGEST_LINE_HEADER {
            Err(Stop::Absurd)
        } else {
            Ok(())
        }
    }

    /// The table of abbreviations at an offset; it ends where the next one begins.
    fn table(&self, at: usize) -> Result<Arc<Abbreviations>, Stop> {
        if let Some(table) = self.tables.borrow().get(&at) {
            return Ok(Arc::clone(table));
        }
        let next = self
            .bounds
            .get(self.bounds.partition_point(|bound| *bound <= at))
            .copied()
            .unwrap_or(at);
        let mut input = *self.dwarf.debug_abbrev.reader();
        input.skip(at)?;
        input.truncate(next.saturating_sub(at).min(LONGEST_TABLE).min(input.len()))?;
        self.work.charge(input.len())?;
        let table = Arc::new(DebugAbbrev::from(input).abbreviations(DebugAbbrevOffset(0))?);
        let mut tables = self.tables.borrow_mut();
        if tables.len() >= TABLES_KEPT {
            tables.clear();
        }
        tables.insert(at, Arc::clone(&table));
        Ok(table)
    }
}
