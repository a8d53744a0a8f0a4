//! The records of unwinding tables (`.eh_frame`): which function each of them describes.
//!
//! Used by `function_starts` and by `frame_index`. The Linux Standard Base describes the format
//! (Core, "Exception Frames"). A description entry names a common entry, which says how the
//! addresses of the function are encoded.
//!
//! ```text
//! common entry              description entry
//! length        4           length                4
//! 0             4           distance to common    4
//! version       1           start of function     encoded
//! augmentation  text, 0     length of function    encoded, never relative
//! …                         …
//! ```
//!
//! Invariant: any bytes are accepted; a record that cannot be read describes no function.

use std::ops::Range;

use crate::section::{Section, u32_at, u64_at};

/// The largest augmentation text of a common entry, and the longest number in LEB128.
const MAX_TEXT: usize = 16;
const MAX_LEB: usize = 10;

/// The functions that the records describe, with the address of each record, in the order of the
/// section.
pub(crate) fn all(entries: &Section) -> impl Iterator<Item = (u64, Range<u64>)> + '_ {
    let mut next = 0;
    let records = std::iter::from_fn(move || {
        let at = next;
        let len = u32_at(&entries.bytes, at).filter(|len| *len != 0)?;
        next = if len == u32::MAX {
            let len = u64_at(&entries.bytes, at + 4)?;
            at.checked_add(12)?
                .checked_add(usize::try_from(len).ok()?)?
        } else {
            at.checked_add(4)?.checked_add(len as usize)?
        };
        Some(at)
    });
    records.filter_map(|at| {
        let function = described(entries, at)?;
        Some((entries.addresses.start + at as u64, function))
    })
}

/// The function that the record at an offset of the section describes.
pub(crate) fn described(entries: &Section, at: usize) -> Option<Range<u64>> {
    let bytes = &entries.bytes;
    if u32_at(bytes, at)? == u32::MAX {
        return None; // no linker writes such long records
    }
    let place = at.checked_add(4)?;
    let distance = u32_at(bytes, place).filter(|distance| *distance != 0)?;
    let encoding = address_encoding(bytes, place.checked_sub(distance as usize)?)?;
    let start = place.checked_add(4)?;
    let width = width(encoding)?;
    let address = entries.addresses.start.checked_add(start as u64)?;
    let value = number(bytes, start, encoding)?;
    let first = match encoding & 0x70 {
        0 => value,
        0x10 => address.wrapping_add(value),
        _ => return None, // relative to a section that is not known here
    };
    let len = number(bytes, start.checked_add(width)?, encoding & 7)?;
    Some(first..first.checked_add(len)?)
}

/// The encoding of addresses that the common entry at an offset asks for.
fn address_encoding(bytes: &[u8], at: usize) -> Option<u8> {
    let is_common = u32_at(bytes, at.checked_add(4)?)? == 0;
    let version = *bytes.get(at.checked_add(8)?)?;
    let rest = bytes.get(at.checked_add(9)?..).filter(|_| is_common)?;
    let end = rest.iter().take(MAX_TEXT).position(|byte| *byte == 0)?;
    let (text, rest) = rest.split_at_checked(end)?;
    let Some(kinds) = text.strip_prefix(b"z") else {
        return text.is_empty().then_some(0);
    };
    let rest = after_leb(after_leb(rest.get(1..)?)?)?; // two alignments
    let rest = if version == 1 {
        rest.get(1..)?
    } else {
        after_leb(rest)?
    };
    let mut rest = after_leb(rest)?; // the length of what follows
    for kind in kinds {
        match kind {
            b'R' => return rest.first().copied(),
            b'L' => rest = rest.get(1..)?,
            b'P' => rest = rest.get(1 + width(*rest.first()?)?..)?,
            _ => {} // without data: a signal's frame, signed return addresses
        }
    }
    Some(0)
}

fn after_leb(bytes: &[u8]) -> Option<&[u8]> {
    let last = bytes
        .iter()
        .take(MAX_LEB)
        .position(|byte| byte & 0x80 == 0)?;
    bytes.get(last + 1..)
}

/// The bytes of a number in this encoding. `None` for numbers of variable length, which no compiler
/// writes.
const fn width(encoding: u8) -> Option<usize> {
    match encoding & 0x0f {
        0x0 | 0x4 | 0xc => Some(8),
        0x2 | 0xa => Some(2),
        0x3 | 0xb => Some(4),
        _ => None,
    }
}

fn number(bytes: &[u8], at: usize, encoding: u8) -> Option<u64> {
    let is_signed = encoding & 8 != 0;
    Some(match width(encoding)? {
        2 => {
            let half = u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?);
            if is_signed {
                i64::from(half.cast_signed()).cast_unsigned()
            } else {
                half.into()
            }
        }
        4 => {
            let word = u32_at(bytes, at)?;
            if is_signed {
                i64::from(word.cast_signed()).cast_unsigned()
            } else {
                word.into()
            }
        }
        _ => u64_at(bytes, at)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A common entry whose addresses have this encoding, and an entry of a function.
    fn section(encoding: u8, function: &[u8]) -> Section {
        let mut bytes = vec![24, 0, 0, 0, 0, 0, 0, 0, 1];
        bytes.extend(b"zPLR\0\x01\x78\x10");
        bytes.extend([7, 0x1b, 1, 2, 3, 4, 0x1b, encoding]);
        bytes.resize(28, 0);
        let len = u32::try_from(4 + function.len()).unwrap();
        bytes.extend(len.to_ne_bytes());
        bytes.extend(32_u32.to_ne_bytes());
        bytes.extend(function);
        Section {
            addresses: 0x2000..0x2000 + bytes.len() as u64,
            bytes: bytes.into(),
        }
    }

    #[test]
    fn a_function_is_read_in_each_encoding_of_addresses() {
        let eight = [0x1000_u64.to_ne_bytes(), 0x20_u64.to_ne_bytes()].concat();
        let near = [(-0x1024_i32).to_ne_bytes(), 0x20_i32.to_ne_bytes()].concat();
        let far = [(-0x1024_i64).to_ne_bytes(), 0x20_i64.to_ne_bytes()].concat();
        let four = [0x1000_u32.to_ne_bytes(), 0x20_u32.to_ne_bytes()].concat();
        for (encoding, function) in [(0x00, eight), (0x1b, near), (0x1c, far), (0x03, four)] {
            let found: Vec<_> = all(&section(encoding, &function)).collect();
            assert_eq!(found, [(0x201c, 0x1000..0x1020)], "{encoding:#x}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes: Vec<u8>, address: u64) {
            let section = Section {
                addresses: address % (1 << 47)..u64::MAX,
                bytes: bytes.into(),
            };
            prop_assert!(all(&section).count() <= section.bytes.len());
        }
    }
}
