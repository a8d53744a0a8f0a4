//! The container of `.xz` files: headers and checksums around blocks of LZMA2.
//!
//! Used by [`super::minidebug`]. `lzma-rust2` decodes the blocks; its own reader of the container
//! brings nine crates for the SHA-256 checksum, which this kind of file never has. Only the filter
//! LZMA2 is supported, and the checksums that `xz` can write other than SHA-256. Invariant: neither
//! the output nor the decoder's memory is larger than the limits of the caller.
//!
//! ```text
//! file  := header block* 0 index…        header: magic (6), 0, type of the checksum, CRC-32
//! block := size/4 flags filters padding CRC-32   LZMA2 data   padding to 4   checksum
//! ```

use std::io::Read;

use lzma_rust2::Lzma2Reader;

const MAGIC: &[u8] = b"\xfd7zXZ\0";
const LZMA2: u8 = 0x21;
/// Largest code of a dictionary size: 4 GiB - 1.
const MOST_DICTIONARY: u8 = 40;

/// Why a file is not unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum XzError {
    /// It does not begin as an `.xz` file.
    #[error("not an xz file")]
    NotXz,
    /// It ends too early, or a checksum or size is wrong.
    #[error("damaged xz data")]
    Damaged,
    /// It has another filter than LZMA2, or a SHA-256 checksum.
    #[error("an xz filter or checksum that is not supported")]
    Unsupported,
    /// The decoder would need more memory than it may have.
    #[error("xz data that needs too much memory")]
    Memory,
}

/// What the caller permits.
#[derive(Clone, Copy, Debug)]
pub(super) struct XzLimits {
    /// Memory of the decoder, in KiB.
    pub(super) decoder_kib: u32,
    /// Bytes of output. Decoding ends without error when there are more.
    pub(super) output: u64,
}

/// The checksum behind each block.
#[derive(Clone, Copy)]
enum Check {
    None,
    Crc32,
    Crc64,
}

/// Unpacks the first stream of a file.
pub(super) fn unpack(file: &[u8], limits: XzLimits) -> Result<Vec<u8>, XzError> {
    let mut rest = file.strip_prefix(MAGIC).ok_or(XzError::NotXz)?;
    let check = header(&mut rest)?;
    let mut unpacked = Vec::new();
    while let Some(dictionary) = block_header(&mut rest)? {
        let begin = unpacked.len();
        let left = limits.output.saturating_sub(begin as u64);
        let before = rest.len();
        let decoder = Lzma2Reader::new_mem_limit(&mut rest, dictionary, limits.decoder_kib, None);
        let mut decoder = decoder.map_err(|_| XzError::Memory)?;
        let read = (&mut decoder).take(left).read_to_end(&mut unpacked).map_err(|_| XzError::Damaged)?;
        if read as u64 == left && decoder.read(&mut [0]).map_err(|_| XzError::Damaged)? > 0 {
            return Ok(unpacked);
        }
        let padding = (before - rest.len()).wrapping_neg() % 4;
        if take(&mut rest, padding)?.iter().any(|byte| *byte != 0) {
            return Err(XzError::Damaged);
        }
        let block = unpacked.get(begin..).unwrap_or_default();
        if take(&mut rest, check.len())? != check.of(block).get(..check.len()).unwrap_or_default() {
            return Err(XzError::Damaged);
        }
    }
    Ok(unpacked)
}

/// The rest of the file's header after the magic number.
fn header(rest: &mut &[u8]) -> Result<Check, XzError> {
    let flags = take(rest, 2)?;
    if take(rest, 4)? != crc32(flags).to_le_bytes() {
        return Err(XzError::Damaged);
    }
    match flags {
        [0, 0] => Ok(Check::None),
        [0, 1] => Ok(Check::Crc32),
        [0, 4] => Ok(Check::Crc64),
        _ => Err(XzError::Unsupported),
    }
}

/// The size of the next block's dictionary; `None` if there is no further block.
fn block_header(rest: &mut &[u8]) -> Result<Option<u32>, XzError> {
    let words = usize::from(*rest.first().ok_or(XzError::Damaged)?);
    if words == 0 {
        return Ok(None);
    }
    let header = take(rest, words * 4)?;
    if take(rest, 4)? != crc32(header).to_le_bytes() {
        return Err(XzError::Damaged);
    }
    let (mut fields, flags) = (header.get(2..).unwrap_or_default(), header.get(1).copied().unwrap_or(0));
    // Bits 6 and 7: the sizes of the block, which its end shows as well.
    for is_there in [flags & 0x40 != 0, flags & 0x80 != 0] {
        if is_there {
            skip_number(&mut fields)?;
        }
    }
    match fields {
        [LZMA2, 1, size, ..] if flags & 0x3f == 0 && *size <= MOST_DICTIONARY => {
            Ok(Some(dictionary_size(*size)))
        }
        _ => Err(XzError::Unsupported),
    }
}

const fn dictionary_size(code: u8) -> u32 {
    if code == MOST_DICTIONARY {
        return u32::MAX;
    }
    (2 | (code as u32 & 1)) << (code / 2 + 11)
}

/// A number of at most nine bytes, of which all but the last have bit 7.
fn skip_number(rest: &mut &[u8]) -> Result<(), XzError> {
    let more = rest.iter().take(9).take_while(|byte| **byte & 0x80 != 0).count();
    take(rest, more + 1).map(|_| ())
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], XzError> {
    rest.split_off(..count).ok_or(XzError::Damaged)
}

impl Check {
    const fn len(self) -> usize {
        match self {
            Self::None => 0,
            Self::Crc32 => 4,
            Self::Crc64 => 8,
        }
    }

    /// The checksum, and zeros after it.
    fn of(self, block: &[u8]) -> [u8; 8] {
        match self {
            Self::None => 0,
            Self::Crc32 => u64::from(crc32(block)),
            Self::Crc64 => crc64(block),
        }
        .to_le_bytes()
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// CRC-64/XZ, half a byte at a time.
fn crc64(bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xc96c_5795_d787_0f42;
    let step = |crc: u64, _| (crc >> 1) ^ (POLYNOMIAL & (crc & 1).wrapping_neg());
    let table: [u64; 16] = std::array::from_fn(|index| (0..4).fold(index as u64, step));
    let half = |crc: u64, bits: u64| {
        let index = usize::try_from((crc ^ bits) & 15).unwrap_or(0);
        (crc >> 4) ^ table.get(index).copied().unwrap_or(0)
    };
    !bytes.iter().fold(u64::MAX, |crc, byte| {
        let byte = u64::from(*byte);
        half(half(crc, byte), byte >> 4)
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use lzma_rust2::{CheckType, XzOptions, XzWriter};

    use super::*;

    const LIMITS: XzLimits = XzLimits { decoder_kib: 64 << 10, output: 1 << 24 };

    fn packed(text: &[u8], check: CheckType, block: Option<u64>) -> Vec<u8> {
        let mut options = XzOptions::with_preset(1);
        options.set_check_sum_type(check);
        options.set_block_size(block.and_then(std::num::NonZeroU64::new));
        let mut writer = XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(text).unwrap();
        writer.finish().unwrap()
    }

    fn text() -> Vec<u8> {
        (0..200_000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
    }

    #[test]
    fn files_with_each_checksum_and_with_several_blocks_are_unpacked() {
        let text = text();
        for check in [CheckType::None, CheckType::Crc32, CheckType::Crc64] {
            for block in [None, Some(1 << 17)] {
                assert!(unpack(&packed(&text, check, block), LIMITS).unwrap() == text);
            }
        }
        assert_eq!(unpack(&packed(b"", CheckType::Crc64, None), LIMITS), Ok(Vec::new()));
    }

    #[test]
    fn the_checksum_of_the_standard_is_computed() {
        assert_eq!(crc64(b"123456789"), 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn damaged_files_are_refused() {
        let packed_text = packed(&text(), CheckType::Crc64, None);
        let of = |bytes: &[u8]| unpack(bytes, LIMITS);
        assert_eq!(of(b"text"), Err(XzError::NotXz));
        assert_eq!(of(&packed_text[..packed_text.len() / 2]), Err(XzError::Damaged));
        for index in [6, 9, 13, 16, 5_000] {
            let mut damaged = packed_text.clone();
            damaged[index] ^= 0x10;
            assert!(of(&damaged).is_err(), "byte {index}");
        }
        assert_eq!(of(&packed(b"text", CheckType::Sha256, None)), Err(XzError::Unsupported));
    }

    #[test]
    fn limits_are_kept() {
        let packed = packed(&text(), CheckType::Crc64, Some(1 << 17));
        let unpacked = unpack(&packed, XzLimits { output: 300_000, ..LIMITS }).unwrap();
        assert!(unpacked.len() == 300_000 && text().starts_with(&unpacked));
        assert_eq!(unpack(&packed, XzLimits { decoder_kib: 64, ..LIMITS }), Err(XzError::Memory));
    }
}
