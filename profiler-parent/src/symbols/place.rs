//! What an address means: functions, files and lines.
//!
//! Made by [`super::Symbols`], read by whoever writes a profile. Invariants: inlined functions come
//! before the function they were inlined into; nothing here borrows from a file.

use std::sync::Arc;

/// One function at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFrame {
    /// Readable name; `None` if only file and line are known.
    pub function: Option<Arc<str>>,
    /// Source file as the compiler wrote it down.
    pub file: Option<Arc<str>>,
    /// Line in it; 0 if unknown.
    pub line: u32,
}

/// Where the code of a function lies, relative to its module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeRange {
    /// First address.
    pub start: u64,
    /// Bytes; 0 if unknown.
    pub size: u64,
}

/// What is known of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Functions, innermost first: those that the compiler inlined, then the one whose code it is.
    /// Empty if nothing is known.
    pub frames: Box<[SourceFrame]>,
    /// The code of the last of them.
    pub function: Option<CodeRange>,
}

impl Place {
    /// Whether the function has a name.
    pub fn is_named(&self) -> bool {
        self.outer().is_some_and(|frame| frame.function.is_some())
    }

    /// The function whose code it is.
    pub fn outer(&self) -> Option<&SourceFrame> {
        self.frames.last()
    }

    /// About how many bytes it takes, without its texts.
    pub(super) fn weight(&self) -> u64 {
        (size_of::<Self>() + size_of_val(&*self.frames) + 32) as u64
    }
}

/// How an address without a name is shown: `libfoo.so+0x1f`.
pub fn without_name(path: &str, address: u64) -> String {
    let file = path.rsplit('/').next().filter(|file| !file.is_empty()).unwrap_or("?");
    format!("{file}+{address:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_name_is_shown_by_file_and_offset() {
        assert_eq!(without_name("/usr/lib/libfoo.so.1", 0x1f), "libfoo.so.1+0x1f");
        assert_eq!(without_name("[vdso]", 16), "[vdso]+0x10");
        assert_eq!(without_name("", 1), "?+0x1");
    }
}
