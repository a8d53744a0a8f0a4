//! Which programs can load the preloaded library, by the head of their files.
//!
//! Reads the ELF header and the program headers, and accepts any bytes. The words are read in the
//! byte order of this machine; a file of the other order is one for another processor anyway.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Whether a program can load the preloaded library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// It has a loader that loads the library.
    Dynamic,
    /// It has no loader.
    Static,
    /// It is made for another processor, or for another size of words.
    Foreign,
    /// It is no program in the format ELF, or it cannot be read.
    Unknown,
}

/// The most program headers that are read. Programs have about a dozen.
const MAX_SEGMENTS: u16 = 64;
const SEGMENT_BYTES: usize = 56;
const PT_INTERP: u32 = 3;

/// The number of this processor in ELF files.
const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};

/// The kind of a program.
pub(super) fn kind_of(file: &File) -> ProgramKind {
    let mut head = [0; 64];
    if file.read_exact_at(&mut head, 0).is_err() || !head.starts_with(b"\x7fELF") {
        return ProgramKind::Unknown;
    }
    let has_own_words = head.get(4) == Some(&2);
    if !has_own_words || half(&head, 18) != Some(OWN_MACHINE) {
        return ProgramKind::Foreign;
    }
    let count = half(&head, 56).unwrap_or(0);
    let Some(table) = long(&head, 32).filter(|_| count <= MAX_SEGMENTS) else {
        return ProgramKind::Unknown;
    };
    let mut segments = vec![0; usize::from(count) * SEGMENT_BYTES];
    if file.read_exact_at(&mut segments, table).is_err() {
        return ProgramKind::Unknown;
    }
    let mut segments = segments.chunks_exact(SEGMENT_BYTES);
    if segments.any(|segment| word(segment, 0) == Some(PT_INTERP)) {
        ProgramKind::Dynamic
    } else {
        ProgramKind::Static
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A program with one segment of this kind, whose contents are `loader`.
    fn program(machine: u16, segment: u32, loader: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 64 + SEGMENT_BYTES];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[18..20].copy_from_slice(&machine.to_ne_bytes());
        bytes[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        bytes[64..68].copy_from_slice(&segment.to_ne_bytes());
        bytes[72..80].copy_from_slice(&120_u64.to_ne_bytes());
        bytes[96..104].copy_from_slice(&(loader.len() as u64).to_ne_bytes());
        bytes.extend(loader);
        bytes
    }

    fn kind(bytes: &[u8]) -> ProgramKind {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        kind_of(&file)
    }

    #[test]
    fn programs_are_told_apart_by_their_loader() {
        let glibc = b"/lib64/ld-linux-x86-64.so.2\0";
        let with = |loader: &[u8]| kind(&program(OWN_MACHINE, PT_INTERP, loader));
        assert_eq!(with(glibc), ProgramKind::Dynamic);
        assert_eq!(with(b"/lib/ld-musl-x86_64.so.1\0"), ProgramKind::Dynamic);
        assert_eq!(kind(&program(OWN_MACHINE, 1, b"")), ProgramKind::Static);
        assert_eq!(kind(&program(40, PT_INTERP, glibc)), ProgramKind::Foreign);
    }

    #[test]
    fn a_program_with_shorter_words_is_foreign() {
        let mut bytes = program(OWN_MACHINE, 1, b"");
        bytes[4] = 1;
        assert_eq!(kind(&bytes), ProgramKind::Foreign);
    }

    #[test]
    fn files_of_other_kinds_are_unknown() {
        assert_eq!(kind(b"#!/bin/sh\n"), ProgramKind::Unknown);
        assert_eq!(kind(b""), ProgramKind::Unknown);
        let mut bytes = program(OWN_MACHINE, PT_INTERP, b"/lib/ld.so\0");
        bytes[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(kind(&bytes), ProgramKind::Unknown);
        for length in 0..bytes.len() {
            kind(&bytes[..length]);
        }
    }

    #[test]
    fn this_program_can_load_the_library() {
        let own = File::open("/proc/self/exe").unwrap();
        assert_eq!(kind_of(&own), ProgramKind::Dynamic);
    }
}
