//! An ELF file: its identity, where its debug information is, its sections.
//!
//! Used by [`super::locate`] and [`super::module`]. Any bytes may stand in the file; what cannot be read is absent.

use std::borrow::Cow;

use object::read::elf::Sym;
use object::{CompressedData, CompressionFormat, Endianness, Object, ObjectSection, elf, pod};

use ruzstd::decoding::FrameDecoder;

use super::bytes::Bytes;

/// Most rows of a symbol table that are read. The largest programs there are have about as many.
const MOST_SYMBOLS: usize = 1 << 21;

/// A parsed file.
#[derive(Debug)]
pub(super) struct Image<'d> {
    file: object::File<'d, Bytes<'d>>,
    bytes: Bytes<'d>,
}

/// Where another file has the debug information: its name and what it must be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link<'d, T> {
    pub(super) name: &'d [u8],
    pub(super) proof: T,
}

/// One row of a symbol table, as far as it is of use.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawSymbol {
    pub(super) name: u32,
    /// Whether it says that it is a function; code in assembly often does not.
    pub(super) is_function: bool,
    /// Whether other files can refer to it, and are not told to prefer another.
    pub(super) is_global: bool,
    pub(super) address: u64,
    pub(super) size: u64,
}

/// A symbol table with the texts it refers to.
#[derive(Debug)]
pub(super) struct RawTable<'d> {
    pub(super) symbols: Vec<RawSymbol>,
    pub(super) texts: Cow<'d, [u8]>,
    /// Code symbols that were too many.
    pub(super) left_out: u64,
}

impl<'d> Image<'d> {
    pub(super) fn parse(bytes: Bytes<'d>) -> Result<Self, object::Error> {
        Ok(Self { file: object::File::parse(bytes)?, bytes })
    }

    /// The linker's identity of its contents; empty if it has none.
    pub(super) fn build_id(&self) -> &'d [u8] {
        self.file.build_id().ok().flatten().unwrap_or_default()
    }

    /// The separate debug file and its checksum.
    pub(super) fn debug_link(&self) -> Option<Link<'d, u32>> {
        let (name, proof) = self.file.gnu_debuglink().ok()??;
        Some(Link { name, proof })
    }

    /// The file with what several debug files have in common, and its build id.
    pub(super) fn shared_link(&self) -> Option<Link<'d, &'d [u8]>> {
        let (name, proof) = self.file.gnu_debugaltlink().ok()??;
        Some(Link { name, proof })
    }

    pub(super) fn is_little_endian(&self) -> bool {
        self.file.is_little_endian()
    }

    /// Whether it has debug information in it.
    pub(super) fn has_debug_info(&self) -> bool {
        self.find_section(".debug_info").is_some_and(|section| {
            section.compressed_file_range().is_ok_and(|range| range.uncompressed_size > 0)
        })
    }

    /// The section of this name, or its form that older tools compress: `.zdebug_info` for
    /// `.debug_info`.
    fn find_section(&self, name: &str) -> Option<object::Section<'d, '_, Bytes<'d>>> {
        let compressed = || Some(format!(".zdebug_{}", name.strip_prefix(".debug_")?));
        let find = |name: &str| self.file.section_by_name(name);
        find(name).or_else(|| find(&compressed()?))
    }

    /// The contents of a section, decompressed: empty if there is none, an error if it would be too much or
    /// cannot be read.
    pub(super) fn section(&self, name: &str) -> Result<Cow<'d, [u8]>, SectionError> {
        let Some(section) = self.find_section(name) else { return Ok(Cow::Borrowed(&[])) };
        let packed = section.compressed_file_range()?;
        let is_packed = packed.format != CompressionFormat::None;
        let unpacked = if is_packed { packed.uncompressed_size } else { 0 };
        if !self.bytes.has(packed.compressed_size.saturating_add(unpacked)) || !self.bytes.take(unpacked) {
            return Err(SectionError::TooMuch);
        }
        let packed = section.compressed_data()?;
        match packed.format {
            CompressionFormat::None => Ok(Cow::Borrowed(packed.data)),
            _ => unpack(&packed).map(Cow::Owned).ok_or(SectionError::BadPacking),
        }
    }

    /// The code symbols of a table and the texts beside it; empty if it has none.
    pub(super) fn symbols(&self, table: &str, texts: &str) -> Result<RawTable<'d>, SectionError> {
        let rows = self.section(table)?;
        let endian = if self.is_little_endian() { Endianness::Little } else { Endianness::Big };
        let (symbols, left_out) = if self.file.is_64() {
            raw_symbols::<elf::Sym64<Endianness>>(&rows, endian, MOST_SYMBOLS)
        } else {
            raw_symbols::<elf::Sym32<Endianness>>(&rows, endian, MOST_SYMBOLS)
        };
        Ok(RawTable { symbols, texts: self.section(texts)?, left_out })
    }
}

/// The first `most` code symbols, and how many more there are.
fn raw_symbols<S: Sym<Endian = Endianness> + pod::Pod>(
    rows: &[u8],
    endian: Endianness,
    most: usize,
) -> (Vec<RawSymbol>, u64) {
    let count = rows.len() / size_of::<S>();
    let Ok((rows, _)) = pod::slice_from_bytes::<S>(rows, count) else { return (Vec::new(), 0) };
    let of = |row: &S| {
        let (kind, address) = (row.st_type(), row.st_value(endian).into());
        let is_function = kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC;
        let is_code = is_function || kind == elf::STT_NOTYPE;
        (is_code && !row.is_undefined(endian) && row.st_shndx(endian) != elf::SHN_ABS && address != 0).then(
            || RawSymbol {
                name: row.st_name(endian),
                is_function,
                is_global: row.st_bind() == elf::STB_GLOBAL,
                address,
                size: row.st_size(endian).into(),
            },
        )
    };
    let mut all = rows.iter().filter_map(of);
    let symbols: Vec<RawSymbol> = all.by_ref().take(most).collect();
    (symbols, all.count() as u64)
}

/// Decompresses a section; `None` if that does not give what the header says. Not by `object`, whose
/// feature for it also builds a second decompressor of zlib.
fn unpack(packed: &CompressedData<'_>) -> Option<Vec<u8>> {
    let size = usize::try_from(packed.uncompressed_size).ok()?;
    let mut unpacked = Vec::new();
    unpacked.try_reserve_exact(size).ok()?;
    match packed.format {
        CompressionFormat::Zlib => {
            let mut zlib = flate2::Decompress::new(true);
            zlib.decompress_vec(packed.data, &mut unpacked, flate2::FlushDecompress::Finish).ok()?;
        }
        CompressionFormat::Zstandard => {
            FrameDecoder::new().decode_all_to_vec(packed.data, &mut unpacked).ok()?;
        }
        _ => return None,
    }
    (unpacked.len() == size).then_some(unpacked)
}

/// Why a section cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum SectionError {
    /// The limit.
    #[error("too much")]
    TooMuch,
    /// The compressed contents.
    #[error("a section that cannot be decompressed")]
    BadPacking,
    /// The file.
    #[error(transparent)]
    Damaged(#[from] object::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_symbols_the_first_are_read_and_the_others_counted() {
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
