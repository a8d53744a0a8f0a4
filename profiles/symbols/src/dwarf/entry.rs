//! One entry of a unit: its code ranges, its name, its call site.
//!
//! Used by [`super::walk`] and [`super::names`].

use gimli::{
    Abbreviation, Attribute, AttributeValue, EntriesRaw, Range, RangeListsOffset, UnitRef,
};

use super::sections::Slice;
use super::work::{Stop, Work};

/// The attributes of a function, of an inlined function, or of an entry that they refer to.
#[derive(Debug, Default)]
pub(super) struct DwarfEntry<'a> {
    low: Option<u64>,
    high: Option<u64>,
    size: Option<u64>,
    list: Option<RangeListsOffset>,
    /// The linkage name.
    pub(super) linkage_name: Option<AttributeValue<Slice<'a>>>,
    /// Name in the source.
    pub(super) name: Option<AttributeValue<Slice<'a>>>,
    /// The referenced entry with the remaining attributes.
    pub(super) origin: Option<AttributeValue<Slice<'a>>>,
    /// The file of the call, by its number in the unit.
    pub(super) call_file: Option<u64>,
    /// The line of the call; 0 if unknown.
    pub(super) call_line: u32,
}

impl<'a> DwarfEntry<'a> {
    /// Reads the attributes of an entry.
    pub(super) fn read(
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        abbreviation: &Abbreviation,
        unit: UnitRef<'_, Slice<'a>>,
    ) -> Result<Self, Stop> {
        let mut entry = Self::default();
        for attribute in abbreviation.attributes() {
            entry.note(&entries.read_attribute(*attribute)?, unit)?;
        }
        Ok(entry)
    }

    fn note(
        &mut self,
        attribute: &Attribute<Slice<'a>>,
        unit: UnitRef<'_, Slice<'a>>,
    ) -> Result<(), Stop> {
        let value = attribute.value();
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = unit.attr_address(value)?,
            gimli::DW_AT_high_pc => match value {
                AttributeValue::Udata(size) => self.size = Some(size),
                _ => self.high = unit.attr_address(value)?,
            },
            gimli::DW_AT_ranges => self.list = unit.attr_ranges_offset(value)?,
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                self.linkage_name = Some(value)
            }
            gimli::DW_AT_name => self.name = Some(value),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => self.origin = Some(value),
            gimli::DW_AT_call_file => {
                // Before version 5, file 0 means no file.
                if let AttributeValue::FileIndex(file) = value
                    && (file > 0 || unit.header.version() >= 5)
                {
                    self.call_file = Some(file);
                }
            }
            gimli::DW_AT_call_line => {
                self.call_line = attribute
                    .udata_value()
                    .and_then(|line| u32::try_from(line).ok())
                    .unwrap_or(0);
            }
            _ => {}
        }
        Ok(())
    }

    /// Calls `each` with every range of its code. Returns whether there is any.
    pub(super) fn ranges(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        work: &Work,
        mut each: impl FnMut(Range) -> Result<(), Stop>,
    ) -> Result<bool, Stop> {
        let mut any = false;
        let mut add = |range: Range| {
            if range.begin >= range.end {
                return Ok(());
            }
            any = true;
            each(range)
        };
        match (self.list, self.low, self.high, self.size) {
            (Some(list), ..) => {
                // The first pass charges for all entries, because the second one may skip any
                // number at once.
                let mut raw = unit.raw_ranges(list)?;
                while raw.next()?.is_some() {
                    work.charge(1)?;
                }
                let mut ranges = unit.ranges(list)?;
                while let Some(range) = ranges.next()? {
                    add(range)?;
                }
            }
            (None, Some(begin), Some(end), _) => add(Range { begin, end })?,
            (None, Some(begin), None, Some(size)) => add(Range {
                begin,
                end: begin.saturating_add(size),
            })?,
            _ => {}
        }
        Ok(any)
    }
}
