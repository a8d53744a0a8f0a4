//! Readable names of what compilers call functions.
//!
//! Used by [`super::module`]. Invariant: takes any bytes, and what it gives has at most [`LONGEST`] bytes.

use std::fmt::{self, Write};

/// Longest readable name; longer ones end in an ellipsis.
const LONGEST: usize = 4096;

/// Text that takes no more than [`LONGEST`] bytes.
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let fitting = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(text.get(..fitting).unwrap_or_default());
        self.0.push('…');
        Err(fmt::Error)
    }
}

/// The readable form of a name; the name itself if it is none of a compiler's.
pub(super) fn readable(raw: &[u8]) -> String {
    let raw = String::from_utf8_lossy(raw);
    rust(&raw).or_else(|| cpp(&raw)).unwrap_or_else(|| {
        let mut plain = Limited(String::new());
        let _ = plain.write_str(&raw);
        plain.0
    })
}

/// Whether a name is one that a compiler made of a longer one.
pub(super) fn is_mangled(raw: &[u8]) -> bool {
    raw.starts_with(b"_Z") || raw.starts_with(b"_R")
}

/// Rust's two forms, without the hash.
fn rust(raw: &str) -> Option<String> {
    // The older form is also C++'s; only the hash tells them apart.
    let is_old = raw.starts_with("_ZN") && raw.contains("17h");
    if !is_old && !raw.starts_with("_R") {
        return None;
    }
    let name = rustc_demangle::try_demangle(raw).ok()?;
    written(|out| write!(out, "{name:#}"))
}

fn cpp(raw: &str) -> Option<String> {
    if !raw.starts_with("_Z") {
        return None;
    }
    let symbol = cpp_demangle::BorrowedSymbol::new(raw.as_bytes()).ok()?;
    written(|out| symbol.structured_demangle(out, &cpp_demangle::DemangleOptions::default()))
}

/// What was written, if it came to its end or to the limit.
fn written(write: impl FnOnce(&mut Limited) -> fmt::Result) -> Option<String> {
    let mut out = Limited(String::new());
    let whole = write(&mut out).is_ok();
    (whole || out.0.ends_with('…')).then_some(out.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_cpp_and_c_are_readable() {
        let of = |raw: &str| readable(raw.as_bytes());
        assert_eq!(of("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"), "core::fmt::Write::write_fmt");
        assert_eq!(of("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
        assert_eq!(of("_ZN3foo3barEi"), "foo::bar(int)");
        assert_eq!(of("_ZN3foo3barEv"), "foo::bar()");
        assert_eq!(of("main"), "main");
        assert_eq!(of("compress.part.0"), "compress.part.0");
        assert_eq!(of("_Z"), "_Z");
        assert_eq!(readable(b"\xff\x00"), "\u{fffd}\0");
    }

    #[test]
    fn no_name_is_longer_than_the_limit() {
        let long = "x".repeat(100_000);
        assert_eq!(readable(long.as_bytes()).len(), LONGEST + '…'.len_utf8());
        let bomb = format!("_Z1fI{}E", "N1a1bE".repeat(2000) + &"S0_".repeat(2000));
        assert!(readable(bomb.as_bytes()).len() <= LONGEST + '…'.len_utf8());
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert!(readable(deep.as_bytes()).len() <= LONGEST + '…'.len_utf8());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_a_readable_form(raw: Vec<u8>) {
            readable(&raw);
            readable(&[b"_ZN", raw.as_slice()].concat());
            readable(&[b"_R", raw.as_slice()].concat());
        }
    }
}
