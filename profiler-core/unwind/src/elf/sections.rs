//! Finds a section by its name in the section headers of a file. They are not loaded into memory.

use std::fs::File;
use std::ops::Range;

use super::{ReadBytes, bytes};
use crate::section::{u16_at, u32_at, u64_at};

/// The bytes of a section header.
const HEADER_BYTES: usize = 64;
/// The flag of a section that is loaded.
const ALLOCATED: u64 = 2;
/// The section has no bytes in the file.
const NO_BITS: u32 = 8;
/// The maximum number of section headers that are read. Only object files have more.
const MAX_SECTIONS: u16 = 4096;
/// The maximum length of a section's name.
const MAX_NAME: usize = 64;

/// The addresses of the loaded section that has this name.
pub(crate) fn allocated(file: &File, name: &[u8]) -> Option<Range<u64>> {
    let mut head = [0; 64];
    if ReadBytes::read(file, 0, &mut head) != head.len() {
        return None;
    }
    let at = u64_at(&head, 40).filter(|at| *at != 0)?;
    let size = u16_at(&head, 58)?;
    let count = u16_at(&head, 60)?.min(MAX_SECTIONS);
    if usize::from(size) != HEADER_BYTES {
        return None;
    }
    let table = bytes(file, at, u64::from(size) * u64::from(count))?;
    let mut headers = table.chunks_exact(HEADER_BYTES);
    let names = u64_at(headers.clone().nth(u16_at(&head, 62)?.into())?, 24)?;
    let found = headers.find(|header| {
        let is_loaded = u64_at(header, 8).is_some_and(|flags| flags & ALLOCATED != 0);
        let has_bytes = u32_at(header, 4) != Some(NO_BITS);
        is_loaded && has_bytes && has_name(file, names, header, name)
    })?;
    let start = u64_at(found, 16)?;
    Some(start..start.checked_add(u64_at(found, 32)?)?)
}

fn has_name(file: &File, names: u64, header: &[u8], name: &[u8]) -> bool {
    let mut room = [0; MAX_NAME];
    let place = u32_at(header, 0).and_then(|offset| names.checked_add(offset.into()));
    let len = place.map_or(0, |place| ReadBytes::read(file, place, &mut room));
    let text = room.get(..len).unwrap_or_default();
    text.strip_prefix(name).and_then(<[u8]>::first) == Some(&0)
}
