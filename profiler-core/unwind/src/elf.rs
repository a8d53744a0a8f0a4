//! Reads the unwinding data of an ELF file, from memory into which it is loaded or from the file.
//!
//! Called by the sampler, for its own process and for observed ones. Of this process, the memory
//! is read rather than the file: all the data is loaded anyway, the file may have been replaced,
//! deleted or hidden by a sandbox, and modules without a file (vdso) are read the same way. Of
//! another process, which may have ended, the file is read. The data is copied, because a library
//! may be unloaded during unwinding.
//!
//! Invariant: any bytes are accepted; invalid parts are left out.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::frame_index;
use crate::function_starts::FunctionStarts;
use crate::section::{Section, u16_at, u32_at, u64_at};

mod sections;

const LOAD: u32 = 1;
const NOTE: u32 = 4;
const EH_FRAME_HDR: u32 = 0x6474_e550;
const BUILD_ID: u32 = 3;
/// The flag of a segment with code.
const EXECUTABLE: u32 = 1;
/// The maximum length of one module's unwinding tables in bytes.
const MAX_TABLES: u64 = 64 << 20;
const MAX_NOTES: u64 = 1 << 16;

/// A loaded file. Addresses are the file's own; `bias` was added to them on loading.
#[derive(Clone, Debug)]
pub struct Image {
    /// What was added to its addresses.
    pub bias: u64,
    /// From the first loaded address to the end of the last.
    pub addresses: Range<u64>,
    /// Identifies its contents; empty if it has none.
    pub build_id: Vec<u8>,
    /// The addresses of its code, and the place of the code in the file.
    pub code: Arc<[CodeRange]>,
    /// The index of the unwinding tables, and the tables themselves.
    pub tables: Option<(Section, Section)>,
}

/// A segment with code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRange {
    /// The file's own addresses.
    pub addresses: Range<u64>,
    /// The offset of its first byte in the file.
    pub offset: u64,
}

/// Bytes with addresses.
pub trait ReadBytes {
    /// Fills `room` with the readable bytes from `address` on; returns their number.
    fn read(&self, address: u64, room: &mut [u8]) -> usize;
}

/// The bytes of a file; the addresses are offsets in it.
impl ReadBytes for std::fs::File {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        self.read_at(room, address).unwrap_or(0)
    }
}

/// The bytes of a file at the addresses at which its segments would be loaded.
struct Segments<'a> {
    file: &'a std::fs::File,
    loads: Vec<Segment>,
}

impl ReadBytes for Segments<'_> {
    fn read(&self, address: u64, room: &mut [u8]) -> usize {
        let contains = |load: &&Segment| load.file_addresses().contains(&address);
        let Some(load) = self.loads.iter().find(contains) else {
            return 0;
        };
        let left = usize::try_from(load.file_addresses().end - address).unwrap_or(usize::MAX);
        let len = room.len().min(left);
        let offset = load.offset.wrapping_add(address - load.address);
        let room = room.get_mut(..len).unwrap_or_default();
        ReadBytes::read(self.file, offset, room)
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    /// The place in the file.
    offset: u64,
    address: u64,
    /// The bytes in the file.
    file_len: u64,
    len: u64,
}

impl Segment {
    const fn end(&self) -> u64 {
        self.address.saturating_add(self.len)
    }

    /// The addresses of its bytes that are in the file.
    fn file_addresses(&self) -> Range<u64> {
        self.address..self.address.saturating_add(self.file_len.min(self.len))
    }
}

impl Image {
    /// Reads the file whose first bytes are loaded at `header`. `None` if it is not an ELF file of
    /// 64 bits.
    pub fn read(memory: &impl ReadBytes, header: u64) -> Option<Self> {
        Self::from_segments(memory, &read_segments(memory, header)?, header)
    }

    /// Reads a file that is not loaded. Its bias is 0. `None` if it is not an ELF file of 64 bits.
    #[must_use]
    pub fn read_file(file: &std::fs::File) -> Option<Self> {
        let segments = read_segments(file, 0)?;
        let loads = segments.iter().filter(|segment| segment.kind == LOAD);
        let loads: Vec<_> = loads.copied().collect();
        let first = loads.iter().map(|segment| segment.address).min()?;
        let loaded = Segments { file, loads };
        let mut image = Self::from_segments(&loaded, &segments, first & !0xfff)?;
        image.find_tables(file, &loaded);
        Some(image)
    }

    fn from_segments(memory: &impl ReadBytes, segments: &[Segment], header: u64) -> Option<Self> {
        let loads = || segments.iter().filter(|segment| segment.kind == LOAD);
        let first = loads().map(|segment| segment.address).min()?;
        let last = loads().map(Segment::end).max()?;
        // The first loaded segment begins with the file's first bytes, at the start of its page.
        let bias = header.wrapping_sub(first & !0xfff);
        let get = |address: u64, len: u64| bytes(memory, bias.wrapping_add(address), len);
        let notes = segments
            .iter()
            .filter(|segment| segment.kind == NOTE && segment.len <= MAX_NOTES);
        let build_id = notes
            .filter_map(|note| build_id(&get(note.address, note.len)?))
            .next();
        let code = loads().filter(|segment| segment.flags & EXECUTABLE != 0);
        let code = code.map(|segment| CodeRange {
            addresses: segment.address..segment.end(),
            offset: segment.offset,
        });
        let tables = segments.iter().find(|segment| segment.kind == EH_FRAME_HDR);
        let tables = tables.and_then(|index| {
            let index = Section {
                addresses: index.address..index.end(),
                bytes: get(index.address, index.len.min(MAX_TABLES))?.into(),
            };
            let start = frames_start(&index)?;
            let segment =
                loads().find(|segment| (segment.address..segment.end()).contains(&start))?;
            with_index(Some(index), tables_at(&get, start..segment.end())?)
        });
        Some(Self {
            bias,
            addresses: first & !0xfff..last.checked_add(0xfff)? & !0xfff,
            build_id: build_id.unwrap_or_default(),
            code: code.collect(),
            tables,
        })
    }

    /// The starts of the functions that the tables describe.
    #[must_use]
    pub fn functions(&self) -> Option<FunctionStarts> {
        let (index, entries) = self.tables.as_ref()?;
        FunctionStarts::new(index, entries)
    }

    /// Adds the unwinding tables if only the section headers of the file name them: a linker may
    /// leave out their index. `memory` has the loaded bytes.
    pub fn find_tables(&mut self, file: &std::fs::File, memory: &impl ReadBytes) {
        if self.tables.is_none()
            && let Some(section) = sections::allocated(file, b".eh_frame")
        {
            let get = |address: u64, len: u64| bytes(memory, self.bias.wrapping_add(address), len);
            self.tables = tables_at(&get, section).and_then(|tables| with_index(None, tables));
        }
    }
}

/// The unwinding tables in this range of addresses.
fn tables_at(get: &impl Fn(u64, u64) -> Option<Vec<u8>>, addresses: Range<u64>) -> Option<Section> {
    let len = addresses.end.saturating_sub(addresses.start);
    let mut frames = get(addresses.start, len.min(MAX_TABLES))?;
    let len = frames_len(&frames);
    frames.truncate(len);
    Some(Section {
        addresses: addresses.start..addresses.start.saturating_add(len as u64),
        bytes: frames.into(),
    })
}

/// The tables with their index, which is made if the file has none with rows.
fn with_index(index: Option<Section>, tables: Section) -> Option<(Section, Section)> {
    let index = index.filter(|index| FunctionStarts::new(index, &tables).is_some());
    let index = index.or_else(|| frame_index::of(&tables))?;
    Some((index, tables))
}

fn bytes(memory: &impl ReadBytes, address: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    let mut done = 0;
    while let Some(room) = bytes.get_mut(done..).filter(|room| !room.is_empty()) {
        match memory.read(address.checked_add(done as u64)?, room) {
            0 => break, // the last page of a segment may be partly unmapped
            read => done += read,
        }
    }
    bytes.truncate(done);
    Some(bytes)
}

fn read_segments(memory: &impl ReadBytes, header: u64) -> Option<Vec<Segment>> {
    let mut head = [0; 64];
    let is_elf64 = memory.read(header, &mut head) == 64 && head.starts_with(b"\x7fELF\x02\x01");
    let at = u64_at(&head, 32)?;
    let size = u16_at(&head, 54)?;
    let count = u16_at(&head, 56)?;
    // More segments than any linker writes: other data may begin like a module.
    if !is_elf64 || !(56..=256).contains(&size) || count > 1024 {
        return None;
    }
    let table = bytes(
        memory,
        header.checked_add(at)?,
        u64::from(size) * u64::from(count),
    )?;
    let segment = |row: &[u8]| {
        Some(Segment {
            kind: u32_at(row, 0)?,
            flags: u32_at(row, 4)?,
            offset: u64_at(row, 8)?,
            address: u64_at(row, 16)?,
            file_len: u64_at(row, 32)?,
            len: u64_at(row, 40)?,
        })
    };
    Some(
        table
            .chunks_exact(usize::from(size))
            .filter_map(segment)
            .collect(),
    )
}

/// The start of the tables of an index. Supports only the encoding that linkers write.
fn frames_start(index: &Section) -> Option<u64> {
    let relative_to_place_signed_4 = 0x1b;
    let head = index.bytes.get(..8)?;
    if head.first() != Some(&1) || head.get(1) != Some(&relative_to_place_signed_4) {
        return None;
    }
    let distance = i64::from(u32_at(head, 4)?.cast_signed());
    Some(
        index
            .addresses
            .start
            .wrapping_add(4)
            .wrapping_add_signed(distance),
    )
}

/// The length of the tables: up to the terminating record, or the last record that fits.
fn frames_len(bytes: &[u8]) -> usize {
    let mut at = 0_usize;
    loop {
        let Some(len) = u32_at(bytes, at) else {
            return at;
        };
        let next = match len {
            0 => return at + 4,
            u32::MAX => match u64_at(bytes, at + 4).and_then(|len| usize::try_from(len).ok()) {
                Some(len) => at.saturating_add(12).saturating_add(len),
                None => return at,
            },
            len => at.saturating_add(4).saturating_add(len as usize),
        };
        if next > bytes.len() {
            return at;
        }
        at = next;
    }
}

/// The build id in the notes: identifies the file's contents.
fn build_id(notes: &[u8]) -> Option<Vec<u8>> {
    let mut at = 0_usize;
    loop {
        let name_len = u32_at(notes, at)? as usize;
        let len = u32_at(notes, at + 4)? as usize;
        let kind = u32_at(notes, at + 8)?;
        let name = notes.get(at + 12..)?.get(..name_len)?;
        let start = at
            .checked_add(12)?
            .checked_add(name_len.checked_next_multiple_of(4)?)?;
        let end = start.checked_add(len)?;
        let content = notes.get(start..end)?;
        if kind == BUILD_ID && name == b"GNU\0" {
            return Some(content.to_vec());
        }
        at = end.checked_next_multiple_of(4)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profiler_sys::Maps;

    #[test]
    fn every_loaded_file_of_this_process_has_tables_and_the_program_a_build_id() {
        let mut maps = Maps::default();
        let memory = std::fs::File::open("/proc/self/mem").unwrap();
        maps.read().unwrap();
        let here = maps.at(build_id as *const () as u64).unwrap();
        let header = maps
            .iter()
            .find(|line| line.path == here.path)
            .unwrap()
            .start;
        let own = Image::read(&memory, header).unwrap();
        assert!(
            own.addresses
                .contains(&(build_id as *const () as u64 - own.bias))
        );
        assert!(own.tables.is_some());
        let vdso = maps.iter().find(|line| line.path == "[vdso]").unwrap();
        let of_vdso = Image::read(&memory, vdso.start).unwrap();
        // The vDSO of the kernel for aarch64 has no tables.
        assert!(of_vdso.tables.is_some() || cfg!(target_arch = "aarch64"));
        let stack = maps.iter().find(|line| line.path == "[stack]").unwrap();
        assert!(Image::read(&memory, stack.start).is_none(), "no ELF file");
        let libc = maps
            .iter()
            .find(|line| line.path.contains("libc.so"))
            .unwrap();
        assert_eq!(Image::read(&memory, libc.start).unwrap().build_id.len(), 20);
    }

    #[test]
    fn tables_end_where_their_lengths_say() {
        let mut bytes = [
            8_u32.to_ne_bytes().to_vec(),
            vec![1; 8],
            vec![0; 4],
            vec![9; 4],
        ]
        .concat();
        assert_eq!(frames_len(&bytes), 16);
        bytes[12] = 200;
        assert_eq!(
            frames_len(&bytes),
            12,
            "a record beyond the end is left out"
        );
        assert_eq!(frames_len(&[]), 0);
    }
}
