//! The meaning of an address: functions, files and lines.
//!
//! Created by [`super::Symbols`], read by writers of profiles. Invariants: inlined functions come
//! before the function that they were inlined into; a place borrows nothing from a file.

use std::sync::Arc;

/// One function at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Demangled name; `None` if only file and line are known.
    pub function: Option<Arc<str>>,
    /// Source file as recorded by the compiler.
    pub file: Option<Arc<str>>,
    /// Line in the file; 0 if unknown.
    pub line: u32,
}

/// The code range of a function, relative to its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeRange {
    /// First address.
    pub start: u64,
    /// Size in bytes; 0 if unknown.
    pub size: u64,
}

/// The symbols of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Functions, innermost first: the inlined functions, then the function that contains the code.
    /// Empty if nothing is known.
    pub frames: Box<[SourceFrame]>,
    /// The code range of the last function in `frames`.
    pub function: Option<CodeRange>,
}

impl Place {
    /// Whether the function has a name.
    pub fn is_named(&self) -> bool {
        self.outer().is_some_and(|frame| frame.function.is_some())
    }

    /// The function that contains the code.
    pub fn outer(&self) -> Option<&SourceFrame> {
        self.frames.last()
    }

    /// Approximate size in bytes, without its texts.
    pub(super) fn weight(&self) -> u64 {
        (size_of::<Self>() + size_of_val(&*self.frames) + 32) as u64
    }
}

/// The displayed form of an address without a name: `libfoo.so+0x1f`.
pub fn without_name(path: &str, address: u64) -> String {
    let file = path
        .rsplit('/')
        .next()
        .filter(|file| !file.is_empty())
        .unwrap_or("?");
    format!("{file}+{address:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_is_shown_by_file_and_offset() {
        assert_eq!(
            without_name("/usr/lib/libfoo.so.1", 0x1f),
            "libfoo.so.1+0x1f"
        );
        assert_eq!(without_name("[vdso]", 16), "[vdso]+0x10");
        assert_eq!(without_name("", 1), "?+0x1");
    }
}
