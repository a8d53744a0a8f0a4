//! Makes the index of unwinding tables (`.eh_frame_hdr`) that a file lacks.
//!
//! Called by `elf`. Linkers leave the index out with `--no-eh-frame-hdr`, and some write one without
//! rows. The index is made in the form that linkers write (`function_starts`), so nothing else
//! distinguishes such a file.

use crate::frame_entries;
use crate::section::Section;

/// The version, then the encodings of the address of the tables, of the number of rows, and of the
/// rows: relative to the place; unsigned, 4 bytes; relative to the index, signed, 4 bytes.
const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// The distance from the second word of the index to the tables: both begin at the same address.
const TO_TABLES: i32 = -4;

/// The index of these tables. `None` if no function is described. Functions that are more than
/// 2 GiB away from the tables are left out.
pub(crate) fn of(entries: &Section) -> Option<Section> {
    let base = entries.addresses.start;
    let distance = |address: u64| i32::try_from(address.wrapping_sub(base).cast_signed()).ok();
    let mut rows: Vec<(i32, i32)> = frame_entries::all(entries)
        .filter(|(_, function)| !function.is_empty())
        .filter_map(|(entry, function)| Some((distance(function.start)?, distance(entry)?)))
        .collect();
    rows.sort_unstable();
    let count = u32::try_from(rows.len()).ok().filter(|count| *count > 0)?;
    let mut bytes = HEAD.to_vec();
    bytes.extend(TO_TABLES.to_ne_bytes());
    bytes.extend(count.to_ne_bytes());
    for (start, entry) in rows {
        bytes.extend(start.to_ne_bytes());
        bytes.extend(entry.to_ne_bytes());
    }
    Some(Section {
        addresses: base..base.saturating_add(bytes.len() as u64),
        bytes: bytes.into(),
    })
}
