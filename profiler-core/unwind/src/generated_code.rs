//! Finds out how a function returns that the process generated at run time.
//!
//! Used by `walk` for samples, on x86-64. Generated code has no unwinding tables, so it is unwound
//! with its frame pointer. CPython's trampolines (`-X perf`: one for each Python function) keep no
//! frame pointer. They do nothing after their call, so the bytes at the return address are
//! `add $8, %rsp; ret`, or `pop %rbp; ret` in later versions. The rule for such a frame is what these
//! two instructions are about to do, so it is right for all code that contains them.
//!
//! Invariants: any bytes of code are accepted. Only private memory without a file is read, as of the
//! last list of mappings, so reading has no effect on devices and waits for no file system. Nothing
//! is allocated per stack.

use std::cell::Cell;

use crate::calls::CodeBytes;
use profiler_sys::{Mapping, Maps};

/// The binary logarithm of the number of return addresses whose epilogues are kept.
const KEPT_BITS: u32 = 10;
/// The bytes of the longest epilogue.
const EPILOGUE_BYTES: usize = 5;

/// The instructions at a return address, if they only return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Epilogue {
    /// `add $8, %rsp; ret`
    SkipWord,
    /// `pop %rbp; ret`
    PopFramePointer,
}

impl Epilogue {
    fn of(code: &[u8]) -> Option<Self> {
        if code.starts_with(&[0x48, 0x83, 0xc4, 0x08, 0xc3]) {
            Some(Self::SkipWord)
        } else if code.starts_with(&[0x5d, 0xc3]) {
            Some(Self::PopFramePointer)
        } else {
            None
        }
    }
}

/// The executable memory without a file, sorted by address.
#[derive(Debug, Default)]
pub struct GeneratedRanges(Vec<(u64, u64)>);

impl GeneratedRanges {
    /// These ranges.
    #[cfg(all(test, target_arch = "x86_64"))]
    pub(crate) const fn of(ranges: Vec<(u64, u64)>) -> Self {
        Self(ranges)
    }

    /// Takes the ranges from the list of mappings; returns whether they have changed.
    pub fn refresh(&mut self, maps: &Maps) -> bool {
        let found = || {
            let generated = maps.iter().filter(is_generated);
            generated.map(|mapping| (mapping.start, mapping.end))
        };
        if found().eq(self.0.iter().copied()) {
            return false;
        }
        self.0.clear();
        self.0.extend(found());
        true
    }

    /// Whether an address is in one of them.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let range = after.checked_sub(1).and_then(|place| self.0.get(place));
        range.is_some_and(|(_, end)| address < *end)
    }
}

/// Whether a mapping may hold generated code. The system shows a name that a program gave to its
/// memory as `[anon:name]`.
fn is_generated(mapping: &Mapping<'_>) -> bool {
    let has_no_file = mapping.path.is_empty() || mapping.path.starts_with("[anon:");
    mapping.executable && mapping.readable && mapping.inode == 0 && has_no_file
}

/// A return address, and the epilogue that was found there.
type KnownEpilogue = Cell<(u64, Option<Epilogue>)>;

/// The epilogues at the return addresses that were met last.
#[derive(Debug)]
pub struct KnownEpilogues(Box<[KnownEpilogue]>);

impl Default for KnownEpilogues {
    fn default() -> Self {
        Self::new()
    }
}

impl KnownEpilogues {
    /// Knows none.
    #[must_use]
    pub fn new() -> Self {
        Self(vec![Cell::new((0, None)); 1 << KEPT_BITS].into())
    }

    /// Forgets all: other code may be at the same addresses now.
    pub fn clear(&self) {
        self.0.iter().for_each(|place| place.set((0, None)));
    }

    fn place(&self, address: u64) -> Option<&KnownEpilogue> {
        let mixed = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - KEPT_BITS);
        self.0.get(usize::try_from(mixed).ok()?)
    }
}

/// The generated code of the process.
#[derive(Clone, Copy)]
pub struct GeneratedCode<'a> {
    /// Where it is.
    pub ranges: &'a GeneratedRanges,
    /// What has been found there.
    pub known: &'a KnownEpilogues,
    /// Reads it.
    pub code: &'a dyn CodeBytes,
}

impl std::fmt::Debug for GeneratedCode<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GeneratedCode")
            .field("ranges", &self.ranges)
            .finish_non_exhaustive()
    }
}

impl GeneratedCode<'_> {
    /// The epilogue at an address, if the address is in generated code.
    pub(crate) fn epilogue(&self, address: u64) -> Option<Epilogue> {
        if cfg!(not(target_arch = "x86_64")) || !self.ranges.contains(address) {
            return None;
        }
        let place = self.known.place(address)?;
        let (met, known) = place.get();
        if met == address {
            return known;
        }
        let mut room = [0; EPILOGUE_BYTES];
        let len = self.code.read(address, &mut room);
        let found = room.get(..len).and_then(Epilogue::of);
        place.set((address, found));
        found
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// Code that begins at address 0x1000.
    struct FakeCode(Vec<u8>, Cell<u32>);

    impl CodeBytes for FakeCode {
        fn read(&self, address: u64, room: &mut [u8]) -> usize {
            self.1.set(self.1.get() + 1);
            let start = usize::try_from(address - 0x1000).unwrap();
            let bytes = self.0.get(start..).unwrap_or_default();
            let len = bytes.len().min(room.len());
            room[..len].copy_from_slice(&bytes[..len]);
            len
        }
    }

    #[test]
    fn an_epilogue_is_recognised_only_in_generated_code_and_read_once() {
        let mut bytes = vec![0xcc; 0x20];
        bytes[..5].copy_from_slice(&[0x48, 0x83, 0xc4, 0x08, 0xc3]);
        bytes[8..10].copy_from_slice(&[0x5d, 0xc3]);
        bytes[0x1e..].copy_from_slice(&[0x48, 0x83]); // cut off by the end of the memory
        let code = FakeCode(bytes, Cell::new(0));
        let known = KnownEpilogues::new();
        let ranges = GeneratedRanges(vec![(0x1000, 0x1020), (0x3000, 0x4000)]);
        let generated = GeneratedCode {
            ranges: &ranges,
            known: &known,
            code: &code,
        };
        for _ in 0..2 {
            assert_eq!(generated.epilogue(0x1000), Some(Epilogue::SkipWord));
            assert_eq!(generated.epilogue(0x1008), Some(Epilogue::PopFramePointer));
            assert_eq!(generated.epilogue(0x1001), None);
            assert_eq!(generated.epilogue(0x101e), None);
            assert_eq!(generated.epilogue(0xfff), None);
            assert_eq!(generated.epilogue(0x2000), None);
        }
        assert!(code.1.get() <= 5, "{} reads", code.1.get());
        known.clear();
        assert_eq!(generated.epilogue(0x1000), Some(Epilogue::SkipWord));
    }

    #[test]
    fn ranges_are_the_executable_mappings_without_a_file() {
        let mapping = |path, executable, inode| Mapping {
            start: 1,
            end: 2,
            readable: true,
            executable,
            offset: 0,
            inode,
            path,
        };
        assert!(is_generated(&mapping("", true, 0)));
        assert!(is_generated(&mapping("[anon:cpython]", true, 0)));
        assert!(!is_generated(&mapping("", false, 0)));
        assert!(!is_generated(&mapping("[vdso]", true, 0)));
        assert!(!is_generated(&mapping("/tmp/jit-1.dump", true, 7)));
        let mut maps = Maps::default();
        maps.read().unwrap();
        let mut ranges = GeneratedRanges::default();
        ranges.refresh(&maps);
        assert!(!ranges.refresh(&maps), "the same list changes nothing");
        assert!(!ranges.contains(is_generated as *const () as u64));
    }
}
