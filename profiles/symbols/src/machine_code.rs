//! Reads the machine code of a function from the file that the process ran.
//!
//! Used by `profiler view`, which shows it as assembly. Invariants: only a file whose build id is
//! that of the process is read, because the code of another build would be shown at wrong
//! addresses; at most [`MAX_CODE`] bytes are read, for any range; no content of a file causes a
//! panic.

use object::Architecture;

use super::ModuleKey;
use super::bytes::Source;
use super::image::Image;
use super::locate::{self, Found};
use super::options::SymbolOptions;
use super::place::CodeRange;
use super::problem::Problem;
use super::reading::Reading;
use super::stack::{SymbolStackError, on_symbol_stack};

/// Limit on the bytes of machine code that are read at once. Very few functions are larger.
const MAX_CODE: u64 = 512 << 10;
/// The length of the longest instruction: the last instruction may end after the range.
const LONGEST_INSTRUCTION: u64 = 15;

/// An architecture whose code can be disassembled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeArchitecture {
    /// x86 with 64 bits.
    X86_64,
    /// ARM with 64 bits, little-endian.
    Aarch64,
}

/// A part of the machine code of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineCode {
    /// The architecture.
    pub architecture: CodeArchitecture,
    /// The address of the first byte, relative to the module.
    pub start: u64,
    /// The requested bytes.
    pub size: usize,
    /// The requested bytes and, as far as the module has them, the bytes that the last instruction
    /// may extend over.
    pub bytes: Vec<u8>,
    /// How many of the requested bytes were left out because of the limit.
    pub left_out: u64,
}

/// The reason why machine code is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineCodeError {
    /// The file is missing, is another one, or cannot be read.
    #[error(transparent)]
    File(#[from] Problem),
    /// The file has no code at this address.
    #[error("the library has no code at address {0:#x}")]
    NoCode(u64),
    /// The architecture is not supported.
    #[error("code for {0} cannot be disassembled")]
    Architecture(String),
}

/// Reads a range of a module's code. Reads nothing of a file whose build id is not that of the
/// module.
///
/// # Errors
/// [`MachineCodeError`].
pub fn machine_code(
    module: ModuleKey<'_>,
    range: CodeRange,
    options: &SymbolOptions,
) -> Result<MachineCode, MachineCodeError> {
    let read = || -> Result<MachineCode, MachineCodeError> {
        let reading = Reading::new(options, options.sum_limit);
        let Found { file, unverified } = locate::module(module.path, module.build_id, &reading)?;
        if unverified {
            return Err(Problem::Unverified(file.path).into());
        }
        of_source(&file.source, range)
    };
    match on_symbol_stack(read) {
        Ok(code) => code,
        Err(SymbolStackError::NoThread(error)) => Err(Problem::NoThread(error.kind()).into()),
        Err(SymbolStackError::Panicked(_)) => Err(Problem::Panicked(module.path.into()).into()),
    }
}

/// Reads a range of the code of an image in memory. Public for the fuzzer, which checks that no
/// image causes a panic.
///
/// # Errors
/// [`MachineCodeError`].
#[doc(hidden)]
pub fn code_of_image(image: Vec<u8>, range: CodeRange) -> Result<MachineCode, MachineCodeError> {
    let options = SymbolOptions::default();
    let reading = Reading::new(&options, options.sum_limit);
    let source = Source::memory(image, options.file_limit, &reading.budget);
    of_source(&source, range)
}

fn of_source(source: &Source, range: CodeRange) -> Result<MachineCode, MachineCodeError> {
    let no_code = || MachineCodeError::NoCode(range.start);
    let image = Image::parse(source.bytes()).map_err(|_| no_code())?;
    let architecture = architecture(&image)?;
    let range = match architecture {
        CodeArchitecture::X86_64 => range,
        // All instructions have four bytes, at multiples of four.
        CodeArchitecture::Aarch64 => CodeRange {
            start: range.start & !3,
            size: range.size.saturating_add(range.start & 3),
        },
    };
    let (position, rest) = image.code_at(range.start).ok_or_else(no_code)?;
    let requested = range.size.min(rest);
    let size = requested.min(MAX_CODE);
    let length = size.saturating_add(LONGEST_INSTRUCTION).min(rest);
    let bytes = image.bytes_at(position, length).ok_or_else(no_code)?;
    Ok(MachineCode {
        architecture,
        start: range.start,
        size: usize::try_from(size).unwrap_or(0),
        bytes: bytes.to_vec(),
        left_out: requested - size,
    })
}

fn architecture(image: &Image<'_>) -> Result<CodeArchitecture, MachineCodeError> {
    match image.architecture() {
        Architecture::X86_64 => Ok(CodeArchitecture::X86_64),
        Architecture::Aarch64 if image.is_little_endian() => Ok(CodeArchitecture::Aarch64),
        other => Err(MachineCodeError::Architecture(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An x86-64 image whose only segment is executable code: `size` bytes of `nop` at
    /// [`CODE_AT`].
    fn image(size: u64) -> Vec<u8> {
        const HEADERS: u64 = 64 + 56;
        let mut image = b"\x7fELF\x02\x01\x01".to_vec();
        image.resize(16, 0);
        let mut put = |bytes: &[u8]| image.extend_from_slice(bytes);
        let half = |number: u16| number.to_le_bytes();
        let word = |number: u32| number.to_le_bytes();
        let long = |number: u64| number.to_le_bytes();
        put(&[half(3), half(62)].concat()); // a shared object for x86-64
        put(&word(1));
        put(&[long(0), long(64), long(0)].concat()); // program headers at 64
        put(&word(0));
        put(&[half(64), half(56), half(1), half(64), half(0), half(0)].concat());
        put(&[word(1), word(5)].concat()); // loaded, readable and executable
        put(&[long(HEADERS), long(CODE_AT), long(CODE_AT)].concat());
        put(&[long(size), long(size), long(1)].concat());
        image.resize(image.len() + usize::try_from(size).unwrap(), 0x90);
        image
    }

    const CODE_AT: u64 = 0x1000;

    #[test]
    fn at_most_the_limit_is_read_and_the_rest_is_counted() {
        let segment = 600 << 10;
        let image = image(segment);
        let read = |start, size| code_of_image(image.clone(), CodeRange { start, size }).unwrap();
        let longest = usize::try_from(LONGEST_INSTRUCTION).unwrap();
        let most = usize::try_from(MAX_CODE).unwrap();
        for (size, left_out) in [
            (MAX_CODE, 0),
            (MAX_CODE + 1, 1),
            (segment, segment - MAX_CODE),
            (u64::MAX, segment - MAX_CODE),
        ] {
            let code = read(CODE_AT, size);
            assert_eq!(
                (code.start, code.size, code.left_out),
                (CODE_AT, most, left_out)
            );
            assert_eq!(code.bytes, vec![0x90; most + longest]);
        }
        let end = read(CODE_AT + segment - 4, u64::MAX);
        assert_eq!((end.size, end.bytes.len(), end.left_out), (4, 4, 0));
        for start in [
            0,
            CODE_AT - 1,
            CODE_AT + segment,
            CODE_AT + segment + 1,
            u64::MAX,
        ] {
            let outside = code_of_image(image.clone(), CodeRange { start, size: 1 });
            assert!(
                matches!(outside, Err(MachineCodeError::NoCode(_))),
                "{start:#x}"
            );
        }
    }
}
