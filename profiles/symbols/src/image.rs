//! An ELF file: its identity, the location of its debug information, its sections.
//!
//! Used by [`super::locate`] and [`super::module`]. Invariant: accepts any bytes; unreadable parts
//! are treated as missing.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use object::ReadRef;
use object::read::elf::Sym;
use object::{
    CompressedData, CompressionFormat, Endianness, Object, ObjectSection, ObjectSegment,
    SectionFlags, SegmentFlags, elf, pod,
};

use ruzstd::decoding::FrameDecoder;

use super::bytes::Bytes;
use super::problem::Problem;

/// Limit on the rows read from a symbol table. The largest existing programs have about as many.
const MAX_SYMBOLS: usize = 1 << 21;
/// Limit on the ranges of code. Programs have fewer than ten sections of code.
const MAX_RANGES: usize = 1 << 12;

/// A parsed file.
#[derive(Debug)]
pub(super) struct Image<'d> {
    file: object::File<'d, Bytes<'d>>,
    bytes: Bytes<'d>,
}

/// A reference to another file with debug information: its name and its expected identity.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link<'d, T> {
    pub(super) name: &'d [u8],
    pub(super) proof: T,
}

/// The relevant fields of a symbol table's row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawSymbol {
    pub(super) name: u32,
    /// Whether the symbol is marked as a function; code in assembly often is not.
    pub(super) is_function: bool,
    /// Whether the symbol is global and not weak.
    pub(super) is_global: bool,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// A symbol table with its string table.
#[derive(Debug)]
pub(super) struct RawTable<'d> {
    pub(super) symbols: Vec<RawSymbol>,
    pub(super) texts: Cow<'d, [u8]>,
    /// The ranges of addresses that contain code, in order; empty if the file does not tell.
    pub(super) code: Vec<Range<u64>>,
    /// Number of code symbols beyond the limit.
    pub(super) left_out: u64,
}

impl<'d> Image<'d> {
    pub(super) fn parse(bytes: Bytes<'d>) -> Result<Self, object::Error> {
        Ok(Self {
            file: object::File::parse(bytes)?,
            bytes,
        })
    }

    /// The build id; empty if the file has none.
    pub(super) fn build_id(&self) -> &'d [u8] {
        self.file.build_id().ok().flatten().unwrap_or_default()
    }

    /// The name and checksum of the separate debug file.
    pub(super) fn debug_link(&self) -> Option<Link<'d, u32>> {
        let (name, proof) = self.file.gnu_debuglink().ok()??;
        Some(Link { name, proof })
    }

    /// The name and build id of the file shared by several debug files.
    pub(super) fn shared_link(&self) -> Option<Link<'d, &'d [u8]>> {
        let (name, proof) = self.file.gnu_debugaltlink().ok()??;
        Some(Link { name, proof })
    }

    pub(super) fn is_little_endian(&self) -> bool {
        self.file.is_little_endian()
    }

    /// The architecture of the code.
    pub(super) fn architecture(&self) -> object::Architecture {
        self.file.architecture()
    }

    /// The position of executable code in the file, and the number of bytes from there to the end
    /// of its segment; `None` if the file has no code at this address.
    pub(super) fn code_at(&self, address: u64) -> Option<(u64, u64)> {
        self.file.segments().find_map(|segment| {
            let (position, size) = segment.file_range();
            let inside = address.checked_sub(segment.address())?;
            let rest = size.checked_sub(inside).filter(|rest| *rest > 0)?;
            let position = position.checked_add(inside)?;
            segment
                .permissions()
                .executable()
                .then_some((position, rest))
        })
    }

    /// Reads bytes of the file.
    pub(super) fn bytes_at(&self, position: u64, length: u64) -> Option<&'d [u8]> {
        self.bytes.read_bytes_at(position, length).ok()
    }

    /// Whether the file contains debug information.
    pub(super) fn has_debug_info(&self) -> bool {
        self.find_section(".debug_info").is_some_and(|section| {
            section
                .compressed_file_range()
                .is_ok_and(|range| range.uncompressed_size > 0)
        })
    }

    /// The section of this name, or its compressed form from older tools: `.zdebug_info` for
    /// `.debug_info`.
    fn find_section(&self, name: &str) -> Option<object::Section<'d, '_, Bytes<'d>>> {
        let compressed = || Some(format!(".zdebug_{}", name.strip_prefix(".debug_")?));
        let find = |name: &str| self.file.section_by_name(name);
        find(name).or_else(|| find(&compressed()?))
    }

    /// The decompressed contents of a section: empty if the section is missing, an error if it
    /// exceeds the limits or cannot be read.
    pub(super) fn section(&self, name: &str) -> Result<Cow<'d, [u8]>, SectionError> {
        let Some(section) = self.find_section(name) else {
            return Ok(Cow::Borrowed(&[]));
        };
        let packed = section.compressed_file_range()?;
        let is_packed = packed.format != CompressionFormat::None;
        let unpacked = if is_packed {
            packed.uncompressed_size
        } else {
            0
        };
        if !self
            .bytes
            .has(packed.compressed_size.saturating_add(unpacked))
            || !self.bytes.take(unpacked)
        {
            return Err(SectionError::TooMuch);
        }
        let packed = section.compressed_data()?;
        match packed.format {
            CompressionFormat::None => Ok(Cow::Borrowed(packed.data)),
            _ => unpack(&packed)
                .map(Cow::Owned)
                .ok_or(SectionError::BadPacking),
        }
    }

    /// The code symbols of a table with its string table; empty if the file has none.
    pub(super) fn symbols(&self, table: &str, texts: &str) -> Result<RawTable<'d>, SectionError> {
        let rows = self.section(table)?;
        let endian = if self.is_little_endian() {
            Endianness::Little
        } else {
            Endianness::Big
        };
        let (symbols, left_out) = if self.file.is_64() {
            raw_symbols::<elf::Sym64<Endianness>>(&rows, endian, MAX_SYMBOLS)
        } else {
            raw_symbols::<elf::Sym32<Endianness>>(&rows, endian, MAX_SYMBOLS)
        };
        Ok(RawTable {
            symbols,
            texts: self.section(texts)?,
            code: self.code(),
            left_out,
        })
    }

    /// The ranges of addresses that contain code: the sections, or without sections the segments.
    fn code(&self) -> Vec<Range<u64>> {
        let is_code = |flags: SectionFlags| match flags {
            SectionFlags::Elf { sh_flags, .. } => sh_flags.contains(elf::SHF_EXECINSTR),
            _ => false,
        };
        let sections = self
            .file
            .sections()
            .filter(|section| is_code(section.flags()));
        let sections = sections.map(|section| (section.address(), section.size()));
        let code = in_order(sections.take(MAX_RANGES));
        if !code.is_empty() {
            return code;
        }
        let is_code = |flags: SegmentFlags| match flags {
            SegmentFlags::Elf { p_flags, .. } => p_flags.contains(elf::PF_X),
            _ => false,
        };
        let segments = self
            .file
            .segments()
            .filter(|segment| is_code(segment.flags()));
        let segments = segments.map(|segment| (segment.address(), segment.size()));
        in_order(segments.take(MAX_RANGES))
    }
}

/// Ranges from their addresses and sizes, without empty ones.
fn in_order(ranges: impl Iterator<Item = (u64, u64)>) -> Vec<Range<u64>> {
    let ranges = ranges.map(|(address, size)| address..address.saturating_add(size));
    let mut ranges: Vec<Range<u64>> = ranges.filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    ranges
}

/// The first `most` code symbols, and the number of further ones.
fn raw_symbols<S: Sym<Endian = Endianness> + pod::Pod>(
    rows: &[u8],
    endian: Endianness,
    most: usize,
) -> (Vec<RawSymbol>, u64) {
    let count = rows.len() / size_of::<S>();
    let Ok((rows, _)) = pod::slice_from_bytes::<S>(rows, count) else {
        return (Vec::new(), 0);
    };
    let of = |row: &S| {
        let kind = row.st_type();
        let address = row.st_value(endian).into();
        let is_function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
        let is_code = is_function || kind == elf::STT_NOTYPE;
        (is_code
            && !row.is_undefined(endian)
            && row.st_shndx(endian) != elf::SHN_ABS
            && address != 0)
            .then(|| RawSymbol {
                name: row.st_name(endian),
                is_function,
                is_global: row.st_bind() == elf::STB_GLOBAL,
                address,
                size: row.st_size(endian).into(),
            })
    };
    let mut all = rows.iter().filter_map(of);
    let symbols: Vec<RawSymbol> = all.by_ref().take(most).collect();
    (symbols, all.count() as u64)
}

/// Decompresses a section; `None` if the result does not match the header. Does not use `object`,
/// whose feature for it also builds a second decompressor of zlib.
fn unpack(packed: &CompressedData<'_>) -> Option<Vec<u8>> {
    let size = usize::try_from(packed.uncompressed_size).ok()?;
    let mut unpacked = Vec::new();
    unpacked.try_reserve_exact(size).ok()?;
    match packed.format {
        CompressionFormat::Zlib => {
            let mut zlib = flate2::Decompress::new(true);
            zlib.decompress_vec(packed.data, &mut unpacked, flate2::FlushDecompress::Finish)
                .ok()?;
        }
        CompressionFormat::Zstandard => {
            FrameDecoder::new()
                .decode_all_to_vec(packed.data, &mut unpacked)
                .ok()?;
        }
        _ => return None,
    }
    (unpacked.len() == size).then_some(unpacked)
}

/// The reason why a section is not available.
#[derive(Debug, thiserror::Error)]
pub(super) enum SectionError {
    /// A limit was reached.
    #[error("too much")]
    TooMuch,
    /// The contents cannot be decompressed.
    #[error("a section that cannot be decompressed")]
    BadPacking,
    /// The file cannot be parsed.
    #[error(transparent)]
    Damaged(#[from] object::Error),
    /// The index of a package of split files cannot be read.
    #[error(transparent)]
    BadPackage(#[from] gimli::Error),
}

impl SectionError {
    /// The problem of the file that has the section.
    pub(super) fn problem(&self, path: &Path) -> Problem {
        let path = path.to_owned();
        match self {
            Self::TooMuch => Problem::TooMuch(path),
            Self::BadPacking | Self::Damaged(_) | Self::BadPackage(_) => {
                Problem::BadDebugInformation {
                    path,
                    reason: self.to_string(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_beyond_the_limit_are_counted() {
        // Name, info (a function), visibility, section, address, size.
        let row = |address: u64| {
            let head = [1, 0, 0, 0, 2, 0, 1, 0];
            [&head[..], &address.to_le_bytes(), &8_u64.to_le_bytes()].concat()
        };
        let rows: Vec<u8> = (1..=100).flat_map(row).collect();
        let read = |most| raw_symbols::<elf::Sym64<Endianness>>(&rows, Endianness::Little, most);
        let (symbols, left_out) = read(30);
        assert_eq!((symbols.len(), left_out, symbols[29].address), (30, 70, 30));
        assert_eq!(read(100).1, 0);
    }
}
