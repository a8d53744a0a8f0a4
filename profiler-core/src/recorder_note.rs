//! A note in executable files: "this program or library contains the recorder".
//!
//! Every file that links the engine carries the note, because the linker keeps notes. The agent
//! (`profiler-agent`), which is loaded into any program, looks for the notes of other files before
//! it begins: a program that contains the recorder uses its own, and two recorders in one process
//! would compete for its signals. The agent itself contains the recorder, and carries a second note
//! that says so: in a forked child, a copy of the agent that was loaded earlier does not count.
//! Invariant: reading changes nothing in the process and allocates nothing. On systems other than
//! Linux there is no note, and no agent.

#![allow(unsafe_code)]

/// The name in the note, padded to a multiple of four bytes.
#[cfg(target_os = "linux")]
const NAME: [u8; 12] = *b"MPProfiler\0\0";
/// The kind of the note: a recorder.
#[cfg(target_os = "linux")]
const RECORDER: u32 = 1;
/// The kind of the note: the agent.
#[cfg(target_os = "linux")]
const AGENT: u32 = 2;

#[cfg(target_os = "linux")]
pub use imp::{Note, is_in_another_file};

/// Whether a loaded file that is no agent, other than the one with this function, contains a
/// recorder.
#[cfg(not(target_os = "linux"))]
pub fn is_in_another_file() -> bool {
    false
}

#[cfg(target_os = "linux")]
mod imp {
    use std::ffi::c_void;
    use std::slice;

    use super::{AGENT, NAME, RECORDER};

    /// A note, in the layout of ELF notes, with a description of one word. For a static in a
    /// section whose name begins with `.note`.
    #[allow(dead_code)] // the fields are read from the file, or from memory by their offsets
    #[derive(Debug)]
    #[repr(C, align(4))]
    pub struct Note {
        name_bytes: u32,
        description_bytes: u32,
        kind: u32,
        name: [u8; NAME.len()],
        format: u32,
    }

    impl Note {
        /// The note of the agent.
        pub const AGENT: Self = Self::of_kind(AGENT);

        const fn of_kind(kind: u32) -> Self {
            Self {
                // With the terminating zero, without the padding.
                name_bytes: 11,
                description_bytes: 4,
                kind,
                name: NAME,
                format: 1,
            }
        }
    }

    #[used]
    #[unsafe(link_section = ".note.mp-profiler")]
    static NOTE: Note = Note::of_kind(RECORDER);

    /// Whether a loaded file that is no agent, other than the one with this function, contains a
    /// recorder.
    ///
    /// Costs some microseconds per loaded file. Waits for the loader if another thread is loading a
    /// library.
    pub fn is_in_another_file() -> bool {
        let mut found = false;
        // SAFETY: `examine` has the signature that the loader calls, and `found` outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(examine), (&raw mut found).cast()) };
        found
    }

    /// Called by the loader for each loaded file. Returns 1 to end the iteration.
    unsafe extern "C" fn examine(
        file: *mut libc::dl_phdr_info,
        _size: usize,
        found: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid description, which stays valid during the call.
        let Some(file) = (unsafe { file.as_ref() }) else {
            return 0;
        };
        let loaded = Loaded::new(file);
        let is_found = !loaded.contains((&raw const NOTE).addr())
            && loaded.has(RECORDER)
            && !loaded.has(AGENT);
        if is_found {
            // SAFETY: the pointer that `is_in_another_file` has passed, to a local of it.
            unsafe { *found.cast::<bool>() = true };
        }
        libc::c_int::from(is_found)
    }

    /// A loaded file.
    struct Loaded<'a> {
        base: usize,
        segments: &'a [Segment],
    }

    #[cfg(target_pointer_width = "64")]
    type Segment = libc::Elf64_Phdr;
    #[cfg(target_pointer_width = "32")]
    type Segment = libc::Elf32_Phdr;

    impl<'a> Loaded<'a> {
        #[allow(clippy::cast_possible_truncation)] // an address has the size of a pointer
        fn new(file: &'a libc::dl_phdr_info) -> Self {
            let segments = if file.dlpi_phdr.is_null() {
                &[][..]
            } else {
                // SAFETY: the loader keeps this many program headers of the file in memory.
                unsafe { slice::from_raw_parts(file.dlpi_phdr, usize::from(file.dlpi_phnum)) }
            };
            Self {
                base: file.dlpi_addr as usize,
                segments,
            }
        }

        /// The addresses of a segment.
        #[allow(clippy::cast_possible_truncation)] // as above
        fn range(&self, segment: &Segment) -> std::ops::Range<usize> {
            let start = self.base.wrapping_add(segment.p_vaddr as usize);
            start..start.saturating_add(segment.p_memsz as usize)
        }

        fn mapped(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
            let is_readable = |segment: &&Segment| {
                segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_R != 0
            };
            let mapped = self.segments.iter().filter(is_readable);
            mapped.map(|segment| self.range(segment))
        }

        fn contains(&self, address: usize) -> bool {
            self.mapped().any(|range| range.contains(&address))
        }

        /// Whether the file has a note of this kind.
        fn has(&self, kind: u32) -> bool {
            let notes = self.segments.iter();
            let mut notes = notes.filter(|segment| segment.p_type == libc::PT_NOTE);
            notes.any(|segment| {
                let bytes = self.bytes(segment);
                bytes.is_some_and(|bytes| super::contains_note(bytes, kind))
            })
        }

        /// The bytes of a segment, if they are inside of a readable mapping.
        fn bytes(&self, segment: &Segment) -> Option<&[u8]> {
            let range = self.range(segment);
            let is_inside = |mapped: std::ops::Range<usize>| {
                mapped.start <= range.start && range.end <= mapped.end
            };
            let start = std::ptr::with_exposed_provenance::<u8>(range.start);
            let is_valid = !range.is_empty() && self.mapped().any(is_inside);
            // SAFETY: the bytes are inside of a segment that the loader has mapped readable, and
            // nothing writes to the notes of a file.
            is_valid.then(|| unsafe { slice::from_raw_parts(start, range.len()) })
        }
    }
}

/// Whether a segment of notes contains a note of ours, of this kind. Accepts any bytes.
#[cfg(target_os = "linux")]
fn contains_note(segment: &[u8], kind: u32) -> bool {
    let mut rest = segment;
    while let Some((note, next)) = split_note(rest) {
        if note.kind == kind && note.name == b"MPProfiler\0" {
            return true;
        }
        rest = next;
    }
    false
}

/// A note: its kind and its name.
#[cfg(target_os = "linux")]
struct FoundNote<'a> {
    kind: u32,
    name: &'a [u8],
}

/// The first note of a segment, and the bytes after it.
#[cfg(target_os = "linux")]
fn split_note(segment: &[u8]) -> Option<(FoundNote<'_>, &[u8])> {
    let word = |at: usize| -> Option<u32> {
        let bytes = segment.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let size = |at: usize| word(at).and_then(|size| usize::try_from(size).ok());
    let padded = |size: usize| size.checked_next_multiple_of(4);
    let name_end = 12_usize.checked_add(size(0)?)?;
    let description = 12_usize.checked_add(padded(size(0)?)?)?;
    let end = description.checked_add(padded(size(4)?)?)?;
    let note = FoundNote {
        kind: word(8)?,
        name: segment.get(12..name_end)?,
    };
    // The last description may be shorter than its padding.
    Some((note, segment.get(end..).unwrap_or_default()))
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;

    fn contains_note_of_recorder(segment: &[u8]) -> bool {
        contains_note(segment, RECORDER)
    }

    fn note(kind: u32, name: &[u8], description: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_ne_bytes();
        bytes.extend(length(name));
        bytes.extend(length(description));
        bytes.extend(kind.to_ne_bytes());
        for part in [name, description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_note_of_a_recorder_is_found_among_others() {
        let other = note(3, b"GNU\0", &[7; 20]);
        let ours = note(RECORDER, b"MPProfiler\0", &[1, 0, 0, 0]);
        assert!(contains_note_of_recorder(&ours));
        assert!(contains_note_of_recorder(&[other.clone(), ours].concat()));
        assert!(!contains_note_of_recorder(&other));
        assert!(!contains_note_of_recorder(&note(2, b"MPProfiler\0", &[])));
    }

    #[test]
    fn damaged_notes_are_no_recorder() {
        let whole = note(RECORDER, b"MPProfiler\0", &[1, 0, 0, 0]);
        for length in 0..20 {
            assert!(!contains_note_of_recorder(&whole[..length]));
        }
        assert!(!contains_note_of_recorder(&[0xff; 64]));
        assert!(!contains_note_of_recorder(&[0; 64]));
    }

    #[test]
    fn the_note_of_this_file_is_not_that_of_another() {
        assert!(!is_in_another_file());
    }
}
