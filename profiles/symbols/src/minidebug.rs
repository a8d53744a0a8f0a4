//! The symbol table that some systems pack into a stripped program: a small ELF file in
//! `.gnu_debugdata`, xz-compressed.
//!
//! Used by [`super::module`] for files without another full symbol table. Invariant: the unpacked
//! size and the memory of the decoder are bounded for any content of the file.

use std::io::Read;
use std::path::Path;

use lzma_rust2::XzReader;

use super::bytes::Source;
use super::image::Image;
use super::problem::Problem;
use super::reading::Reading;

const SECTION: &str = ".gnu_debugdata";
/// Limit on the unpacked file: a hundred times the common size.
const LONGEST: u64 = 64 << 20;
/// Limit on the decoder's dictionary, in KiB.
const DECODER_KIB: u32 = 64 << 10;

/// The unpacked file, if there is one.
pub(super) fn unpacked(
    image: &Image<'_>,
    path: &Path,
    options: &Reading,
    problems: &mut Vec<Problem>,
) -> Option<Source> {
    let packed = image
        .section(SECTION)
        .ok()
        .filter(|packed| !packed.is_empty())?;
    let longest = LONGEST.min(options.file_limit).min(options.budget.left());
    let mut unpacked = Vec::new();
    let reader = XzReader::new_mem_limit(&*packed, false, DECODER_KIB);
    if let Err(error) = reader.take(longest + 1).read_to_end(&mut unpacked) {
        let reason = format!("{SECTION}: {error}");
        problems.push(Problem::BadDebugInformation {
            path: path.to_owned(),
            reason,
        });
        return None;
    }
    if unpacked.len() as u64 > longest {
        problems.push(Problem::TooMuch(path.to_owned()));
        return None;
    }
    let _ = options.budget.take(unpacked.len() as u64);
    Some(Source::memory(
        unpacked,
        options.file_limit,
        &options.budget,
    ))
}
