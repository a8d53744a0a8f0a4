//! The starts of a module's functions, from the index of its unwinding tables (`.eh_frame_hdr`).
//!
//! Created by `elf`, used by `frame_pointer` and `without_tables`. The Linux Standard Base describes the format
//! (Core, "The `.eh_frame_hdr` section"). Only the encodings that linkers write are supported.
//!
//! ```text
//! byte  0      version: 1
//! byte  1      encoding of the address of the tables
//! byte  2      encoding of the number of functions: 0x03, unsigned, 4 bytes
//! byte  3      encoding of the rows: 0x3b, relative to byte 0, signed, 4 bytes
//! byte  4…7    address of the tables
//! byte  8…11   number of functions
//! byte 12…     rows, sorted by address: start of the function, address of its description entry
//! ```
//!
//! The frame description entry has the function's length (`frame_entries`).
//!
//! Invariant: any bytes are accepted. Rows beyond the end of the section are ignored.

use std::sync::Arc;

use crate::frame_entries;
use crate::section::{Section, u32_at};

const VERSION: u8 = 1;
/// `DW_EH_PE_udata4`.
const UDATA4: u8 = 0x03;
/// `DW_EH_PE_datarel | DW_EH_PE_sdata4`.
const DATAREL_SDATA4: u8 = 0x3b;
const HEADER_BYTES: usize = 12;
const ROW_BYTES: usize = 8;

/// The sorted starts of a module's functions, as addresses of the file.
#[derive(Clone, Debug)]
pub struct FunctionStarts {
    /// The address of the index.
    index: u64,
    bytes: Arc<[u8]>,
    count: usize,
    /// The frame description entries.
    entries: Section,
}

impl FunctionStarts {
    /// Reads the header of an index. `None` if the header or an encoding is not supported.
    pub(crate) fn new(index: &Section, entries: &Section) -> Option<Self> {
        let header = index.bytes.get(..HEADER_BYTES)?;
        let is_supported = header.first() == Some(&VERSION)
            && header.get(2) == Some(&UDATA4)
            && header.get(3) == Some(&DATAREL_SDATA4);
        let claimed = usize::try_from(u32_at(header, 8)?).ok()?;
        let present = (index.bytes.len() - HEADER_BYTES) / ROW_BYTES;
        let is_supported = is_supported && claimed > 0;
        is_supported.then(|| Self {
            index: index.addresses.start,
            bytes: Arc::clone(&index.bytes),
            count: claimed.min(present),
            entries: entries.clone(),
        })
    }

    /// The start of the function that contains `address`.
    #[must_use]
    pub fn containing(&self, address: u64) -> Option<u64> {
        let row = self.last_at_or_before(address)?;
        let start = self.start(row)?;
        (address - start < self.len(row, start)?).then_some(start)
    }

    /// The length of the function in a row.
    fn len(&self, row: usize, start: u64) -> Option<u64> {
        let entry = self.address(HEADER_BYTES + row * ROW_BYTES + 4)?;
        let offset = entry.checked_sub(self.entries.addresses.start)?;
        let function = frame_entries::described(&self.entries, usize::try_from(offset).ok()?)?;
        (function.start == start).then(|| function.end - start)
    }

    /// The row of the last function that begins at or before `address`.
    fn last_at_or_before(&self, address: u64) -> Option<usize> {
        let mut low = 0;
        let mut high = self.count;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.start(middle)? <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low.checked_sub(1)
    }

    fn start(&self, row: usize) -> Option<u64> {
        self.address(HEADER_BYTES + row * ROW_BYTES)
    }

    /// The address at an offset of the index.
    fn address(&self, offset: usize) -> Option<u64> {
        let distance = u32_at(&self.bytes, offset)?.cast_signed();
        Some(self.index.wrapping_add_signed(distance.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: u64 = 0x1000;
    const ENTRIES: u64 = 0x2000;

    /// An index of functions, given by their starts relative to it and their lengths, and their
    /// description entries. The index claims `count` rows.
    fn tables(count: u32, functions: &[(i32, u32)]) -> (Section, Section) {
        let mut bytes = vec![VERSION, 0x1b, UDATA4, DATAREL_SDATA4, 0, 0, 0, 0];
        bytes.extend(count.to_ne_bytes());
        // A common entry whose addresses are relative to their place, signed, 4 bytes.
        let mut entries = vec![
            16, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 0x10, 1, 0x1b,
        ];
        entries.resize(20, 0);
        for (start, len) in functions {
            let entry = i32::try_from(entries.len()).unwrap();
            let place = ENTRIES as i32 + entry;
            bytes.extend(start.to_ne_bytes());
            bytes.extend((place - INDEX as i32).to_ne_bytes());
            entries.extend([12_u32.to_ne_bytes(), (entry + 4).to_ne_bytes()].concat());
            entries.extend((INDEX as i32 + start - place - 8).to_ne_bytes());
            entries.extend(len.to_ne_bytes());
        }
        let section = |start: u64, bytes: Vec<u8>| Section {
            addresses: start..start + bytes.len() as u64,
            bytes: bytes.into(),
        };
        (section(INDEX, bytes), section(ENTRIES, entries))
    }

    fn starts(count: u32, functions: &[(i32, u32)]) -> Option<FunctionStarts> {
        let (index, entries) = tables(count, functions);
        FunctionStarts::new(&index, &entries)
    }

    #[test]
    fn an_address_belongs_to_the_function_that_contains_it() {
        let starts = starts(3, &[(-0x100, 0x10), (0x20, 0x60), (0x80, 8)]).unwrap();
        assert_eq!(starts.containing(INDEX - 0x101), None);
        assert_eq!(starts.containing(INDEX - 0x100), Some(INDEX - 0x100));
        assert_eq!(starts.containing(INDEX - 0xf1), Some(INDEX - 0x100));
        assert_eq!(starts.containing(INDEX - 0xf0), None, "no function");
        assert_eq!(starts.containing(INDEX + 0x20), Some(INDEX + 0x20));
        assert_eq!(starts.containing(INDEX + 0x7f), Some(INDEX + 0x20));
        assert_eq!(starts.containing(INDEX + 0x87), Some(INDEX + 0x80));
        assert_eq!(starts.containing(u64::MAX), None);
    }

    #[test]
    fn rows_beyond_the_end_of_the_section_are_ignored() {
        let one = starts(u32::MAX, &[(0x10, 8)]).unwrap();
        assert_eq!(one.containing(INDEX + 0x10), Some(INDEX + 0x10));
        let none = starts(9, &[]).unwrap();
        assert_eq!(none.containing(INDEX + 0x10), None);
        assert!(starts(0, &[]).is_none(), "an index without rows");
    }

    #[test]
    fn a_function_whose_entry_describes_another_has_no_length() {
        let (index, entries) = tables(1, &[(0x10, 8)]);
        let mut bytes = entries.bytes.to_vec();
        bytes[20 + 8] ^= 1;
        let entries = Section {
            bytes: bytes.into(),
            ..entries
        };
        let starts = FunctionStarts::new(&index, &entries).unwrap();
        assert_eq!(starts.containing(INDEX + 0x10), None);
    }

    #[test]
    fn an_index_with_another_encoding_is_refused() {
        let (good, entries) = tables(1, &[(0, 1)]);
        for byte in [0, 2, 3] {
            let mut bytes = good.bytes.to_vec();
            bytes[byte] = 0xff;
            let section = Section {
                addresses: good.addresses.clone(),
                bytes: bytes.into(),
            };
            assert!(
                FunctionStarts::new(&section, &entries).is_none(),
                "byte {byte}"
            );
        }
        let short = Section {
            addresses: INDEX..INDEX + 11,
            bytes: good.bytes[..11].into(),
        };
        assert!(FunctionStarts::new(&short, &entries).is_none());
    }
}
