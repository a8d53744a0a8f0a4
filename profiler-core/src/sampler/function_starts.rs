//! The starts of a module's functions, from the index of its unwinding tables (`.eh_frame_hdr`).
//!
//! Made by `modules`, used by `frame_pointer`. The format is described in the Linux Standard Base
//! (Core, "The `.eh_frame_hdr` section"). Only the encodings that linkers write are supported.
//!
//! ```text
//! byte  0      version: 1
//! byte  1      encoding of the address of the tables
//! byte  2      encoding of the number of functions: 0x03, unsigned, 4 bytes
//! byte  3      encoding of the rows: 0x3b, relative to byte 0, signed, 4 bytes
//! byte  4…7    address of the tables
//! byte  8…11   number of functions
//! byte 12…     rows, sorted by address: start of the function, address of its record
//! ```
//!
//! Invariant: any bytes are accepted; rows beyond the end of the section do not exist.

use std::sync::Arc;

use super::elf::{Section, u32_at};

const VERSION: u8 = 1;
const UNSIGNED_4: u8 = 0x03;
const RELATIVE_TO_INDEX_SIGNED_4: u8 = 0x3b;
const HEAD_BYTES: usize = 12;
const ROW_BYTES: usize = 8;

/// The sorted starts of a module's functions, in the file's own addresses.
#[derive(Clone, Debug)]
pub(super) struct FunctionStarts {
    /// The address of the index.
    index: u64,
    bytes: Arc<[u8]>,
    count: usize,
}

impl FunctionStarts {
    /// Reads the head of an index. `None` if the index has no sorted rows.
    pub(super) fn new(index: &Section) -> Option<Self> {
        let head = index.bytes.get(..HEAD_BYTES)?;
        let is_supported = head.first() == Some(&VERSION)
            && head.get(2) == Some(&UNSIGNED_4)
            && head.get(3) == Some(&RELATIVE_TO_INDEX_SIGNED_4);
        let claimed = usize::try_from(u32_at(head, 8)?).ok()?;
        let present = (index.bytes.len() - HEAD_BYTES) / ROW_BYTES;
        is_supported.then(|| Self {
            index: index.addresses.start,
            bytes: Arc::clone(&index.bytes),
            count: claimed.min(present),
        })
    }

    /// The start of the last function that begins at or before `address`.
    pub(super) fn at_or_before(&self, address: u64) -> Option<u64> {
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
        self.start(low.checked_sub(1)?)
    }

    fn start(&self, row: usize) -> Option<u64> {
        let distance = u32_at(&self.bytes, HEAD_BYTES + row * ROW_BYTES)?.cast_signed();
        Some(self.index.wrapping_add_signed(i64::from(distance)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: u64 = 0x1000;

    fn index(count: u32, starts: &[i32]) -> Section {
        let mut bytes = vec![
            VERSION,
            0x1b,
            UNSIGNED_4,
            RELATIVE_TO_INDEX_SIGNED_4,
            0,
            0,
            0,
            0,
        ];
        bytes.extend(count.to_ne_bytes());
        for start in starts {
            bytes.extend(start.to_ne_bytes());
            bytes.extend(0_u32.to_ne_bytes());
        }
        Section {
            addresses: INDEX..INDEX + bytes.len() as u64,
            bytes: bytes.into(),
        }
    }

    #[test]
    fn an_address_belongs_to_the_last_function_that_begins_before_it() {
        let starts = FunctionStarts::new(&index(3, &[-0x100, 0x20, 0x80])).unwrap();
        assert_eq!(starts.at_or_before(INDEX - 0x101), None);
        assert_eq!(starts.at_or_before(INDEX - 0x100), Some(INDEX - 0x100));
        assert_eq!(starts.at_or_before(INDEX + 0x1f), Some(INDEX - 0x100));
        assert_eq!(starts.at_or_before(INDEX + 0x20), Some(INDEX + 0x20));
        assert_eq!(starts.at_or_before(u64::MAX), Some(INDEX + 0x80));
    }

    #[test]
    fn rows_that_the_section_does_not_hold_do_not_exist() {
        let starts = FunctionStarts::new(&index(u32::MAX, &[0x10])).unwrap();
        assert_eq!(starts.at_or_before(u64::MAX), Some(INDEX + 0x10));
        let none = FunctionStarts::new(&index(9, &[])).unwrap();
        assert_eq!(none.at_or_before(u64::MAX), None);
    }

    #[test]
    fn an_index_of_another_encoding_is_refused() {
        let good = index(1, &[0]);
        for byte in [0, 2, 3] {
            let mut bytes = good.bytes.to_vec();
            bytes[byte] = 0xff;
            let section = Section {
                addresses: good.addresses.clone(),
                bytes: bytes.into(),
            };
            assert!(FunctionStarts::new(&section).is_none(), "byte {byte}");
        }
        let short = Section {
            addresses: INDEX..INDEX + 11,
            bytes: good.bytes[..11].into(),
        };
        assert!(FunctionStarts::new(&short).is_none());
    }
}
