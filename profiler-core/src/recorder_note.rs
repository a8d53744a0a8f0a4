//! Notes in executable files: "this program or library contains the recorder", and "this library
//! observes the program".
//!
//! Every file that links the engine carries the first note, because the linker keeps notes. The
//! library for C (`profiler-agent`) looks for the notes of other files before it begins: a program
//! that contains the recorder uses its own, and two recorders in one process would compete for its
//! signals. The preloaded library of `profiler-observed` carries the second one, which leads to the
//! function that a recorder calls when it begins. Invariant: reading changes nothing in the process
//! and allocates nothing. On systems other than Linux there is no note.

#![allow(unsafe_code)]

/// The kind of the note: a recorder.
#[cfg(target_os = "linux")]
const RECORDER: u32 = 1;
/// The kind of the note: the library that observes the program. The description is the distance
/// from itself to the function that ends the observation.
#[cfg(target_os = "linux")]
const OBSERVER: u32 = 3;

#[cfg(target_os = "linux")]
pub(crate) use imp::end_observation;
#[cfg(target_os = "linux")]
pub use imp::is_in_another_file;

/// Whether a loaded file other than the one with this function contains a recorder.
#[cfg(not(target_os = "linux"))]
pub fn is_in_another_file() -> bool {
    false
}

/// Ends the observation of this process by the preloaded library.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end_observation() {}

#[cfg(target_os = "linux")]
mod imp {
    use std::arch::global_asm;
    use std::ffi::c_void;
    use std::slice;

    use super::{OBSERVER, RECORDER};

    // The recorder note. Its description is one word: the version of the format. It is not a
    // static, because AddressSanitizer adds redzones after statics, and the reader below would read
    // them.
    global_asm!(
        ".pushsection .note.mp-profiler, \"aR\", %note",
        ".balign 4",
        ".long 11, 4, {kind}",
        ".ascii \"MPProfiler\\0\\0\"",
        ".long 1",
        ".popsection",
        kind = const RECORDER,
    );

    /// Whether a loaded file other than the one with this function contains a recorder.
    ///
    /// Costs some microseconds per loaded file. Waits for the loader if another thread is loading a
    /// library.
    pub fn is_in_another_file() -> bool {
        let own = (is_in_another_file as fn() -> bool as *const ()).addr();
        let is_other = |file: &Loaded<'_>| !file.contains(own) && file.note(RECORDER).is_some();
        find(&mut |file| is_other(file).then_some(0)).is_some()
    }

    /// Ends the observation of this process by the preloaded library, if there is one: this
    /// process's own recorder samples it from now on.
    ///
    /// Costs as [`is_in_another_file`], and deletes the library's timers. Not async-signal-safe.
    pub(crate) fn end_observation() {
        let Some(address) = find(&mut function_of_observer) else {
            return;
        };
        let end = std::ptr::with_exposed_provenance::<c_void>(address);
        // SAFETY: the note of the library contains the place of a function of this type, which is
        // in its code, and the library is never unloaded.
        let end = unsafe { std::mem::transmute::<*const c_void, extern "C" fn()>(end) };
        end();
    }

    /// The function that the note of an observing library contains.
    fn function_of_observer(file: &Loaded<'_>) -> Option<usize> {
        let description = file.note(OBSERVER)?.first_chunk::<4>()?;
        let distance = i32::from_ne_bytes(*description);
        let address = description.as_ptr().addr();
        let address = address.checked_add_signed(isize::try_from(distance).ok()?)?;
        file.executes(address).then_some(address)
    }

    type Question<'a> = &'a mut dyn FnMut(&Loaded<'_>) -> Option<usize>;

    /// What `question` says about the first loaded file about which it says something.
    fn find(question: Question<'_>) -> Option<usize> {
        let mut search = (question, None);
        // SAFETY: `examine` has the signature that the loader calls, and `search` outlives the
        // call.
        unsafe { libc::dl_iterate_phdr(Some(examine), (&raw mut search).cast()) };
        search.1
    }

    /// Called by the loader for each loaded file. Returns 1 to end the iteration.
    unsafe extern "C" fn examine(
        file: *mut libc::dl_phdr_info,
        _size: usize,
        search: *mut c_void,
    ) -> libc::c_int {
        // SAFETY: the loader passes a valid description, which stays valid during the call.
        let Some(file) = (unsafe { file.as_ref() }) else {
            return 0;
        };
        let search = search.cast::<(Question<'_>, Option<usize>)>();
        // SAFETY: the pointer that `find` has passed, to a local of it.
        let Some((question, found)) = (unsafe { search.as_mut() }) else {
            return 1;
        };
        *found = question(&Loaded::new(file));
        libc::c_int::from(found.is_some())
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

        /// The mapped segments with this right.
        fn mapped(&self, right: u32) -> impl Iterator<Item = std::ops::Range<usize>> {
            let has_right = move |segment: &&Segment| {
                segment.p_type == libc::PT_LOAD && segment.p_flags & right != 0
            };
            let mapped = self.segments.iter().filter(has_right);
            mapped.map(|segment| self.range(segment))
        }

        fn contains(&self, address: usize) -> bool {
            self.mapped(libc::PF_R)
                .any(|range| range.contains(&address))
        }

        /// Whether an address is in code of the file.
        fn executes(&self, address: usize) -> bool {
            self.mapped(libc::PF_X)
                .any(|range| range.contains(&address))
        }

        /// The description of the file's note of this kind.
        fn note(&self, kind: u32) -> Option<&[u8]> {
            let notes = self.segments.iter();
            let mut notes = notes.filter(|segment| segment.p_type == libc::PT_NOTE);
            notes.find_map(|segment| super::note_of_kind(self.bytes(segment)?, kind))
        }

        /// The bytes of a segment, if they are inside of a readable mapping.
        fn bytes(&self, segment: &Segment) -> Option<&[u8]> {
            let range = self.range(segment);
            let is_inside = |mapped: std::ops::Range<usize>| {
                mapped.start <= range.start && range.end <= mapped.end
            };
            let start = std::ptr::with_exposed_provenance::<u8>(range.start);
            let is_valid = !range.is_empty() && self.mapped(libc::PF_R).any(is_inside);
            // SAFETY: the bytes are inside of a segment that the loader has mapped readable, and
            // nothing writes to the notes of a file.
            is_valid.then(|| unsafe { slice::from_raw_parts(start, range.len()) })
        }
    }
}

/// The description of the first note of ours, of this kind, in a segment of notes. Accepts any
/// bytes.
#[cfg(target_os = "linux")]
fn note_of_kind(segment: &[u8], kind: u32) -> Option<&[u8]> {
    let mut rest = segment;
    while let Some((note, next)) = split_note(rest) {
        if note.kind == kind && note.name == b"MPProfiler\0" {
            return Some(note.description);
        }
        rest = next;
    }
    None
}

/// A note.
#[cfg(target_os = "linux")]
struct FoundNote<'a> {
    kind: u32,
    name: &'a [u8],
    description: &'a [u8],
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
        description: segment.get(description..description.checked_add(size(4)?)?)?,
    };
    // The last description may be shorter than its padding.
    Some((note, segment.get(end..).unwrap_or_default()))
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use super::*;

    fn contains_note_of_recorder(segment: &[u8]) -> bool {
        note_of_kind(segment, RECORDER).is_some()
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
    fn the_description_of_a_note_is_found() {
        let of_observer = note(OBSERVER, b"MPProfiler\0", &[4, 3, 2, 1]);
        assert_eq!(
            note_of_kind(&of_observer, OBSERVER),
            Some(&[4, 3, 2, 1][..])
        );
        assert_eq!(note_of_kind(&of_observer, RECORDER), None);
    }

    #[test]
    fn the_note_of_this_file_is_not_that_of_another() {
        assert!(!is_in_another_file());
    }

    #[test]
    fn a_process_that_is_not_observed_goes_on() {
        end_observation();
    }
}
