//! Demangles function names.
//!
//! Used by [`super::module`] and [`super::texts`], on the stack of [`super::stack`]. A name in a
//! file may nest to any depth, and the demanglers recurse to the same depth. Invariants: accepts
//! any bytes; the result has at most [`LONGEST`] bytes; a name that nests deeper than
//! [`PARSE_DEPTH`] or [`PRINT_DEPTH`] is not changed; no accepted name needs more than an eighth of
//! [`super::stack::STACK`] (measured: 0.5 MiB; 4 MiB, half of it, if the demanglers are built
//! without optimisation).

use std::fmt::{self, Write};

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};

/// Limit on a demangled name; longer ones end in an ellipsis.
const LONGEST: usize = 4096;
/// Limit on a mangled name; longer ones are not demangled.
const LONGEST_MANGLED: usize = 1 << 14;
/// Limit on the pieces in which a name is printed: empty pieces take no room, and a name can have
/// any number of them.
const MAX_PIECES: usize = 1 << 16;
/// Limits on the nesting of a C++ name while it is parsed, and while it is printed.
/// `rustc_demangle` has its own limit of 500 levels, each of which needs a tenth as much stack.
const PARSE_DEPTH: u32 = 96;
const PRINT_DEPTH: u32 = 128;

/// Limit on the `new` expressions in a C++ name: each doubles the time.
const MAX_NEW_EXPRESSIONS: usize = 12;

/// A text of at most [`LONGEST`] bytes, written in at most [`MAX_PIECES`] pieces.
#[derive(Default)]
struct Limited(String, usize);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.1 += 1;
        if self.1 > MAX_PIECES {
            return Err(fmt::Error);
        }
        let room = LONGEST.saturating_sub(self.0.len());
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let fitting = (0..=room)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or(0);
        self.0.push_str(text.get(..fitting).unwrap_or_default());
        self.0.push('…');
        Err(fmt::Error)
    }
}

/// The demangled name; the name itself if it is not mangled.
pub(super) fn readable(raw: &[u8]) -> String {
    let raw = String::from_utf8_lossy(raw);
    let mangled = Some(&*raw).filter(|raw| raw.len() <= LONGEST_MANGLED);
    let demangled = mangled.and_then(|raw| rust(raw).or_else(|| cpp(raw)));
    demangled.unwrap_or_else(|| {
        let mut plain = Limited::default();
        let _ = plain.write_str(&raw);
        plain.0
    })
}

/// Whether a name is mangled.
pub(super) fn is_mangled(raw: &[u8]) -> bool {
    raw.starts_with(b"_Z") || raw.starts_with(b"_R")
}

/// Demangles both forms of Rust names, without the hash.
fn rust(raw: &str) -> Option<String> {
    // The older form is also a C++ form; only the hash distinguishes them.
    let is_old = raw.starts_with("_ZN") && raw.contains("17h");
    if !is_old && !raw.starts_with("_R") {
        return None;
    }
    let name = rustc_demangle::try_demangle(raw).ok()?;
    written(|out| write!(out, "{name:#}"))
}

/// Whether a C++ name may contain too many `new` expressions to be parsed in acceptable time:
/// `cpp_demangle` parses each twice, including everything within it. Letters of identifiers count
/// as well, because only a parser can distinguish them.
fn has_too_many_new_expressions(raw: &str) -> bool {
    let pairs = raw.as_bytes().windows(2);
    pairs
        .filter(|pair| *pair == b"nw" || *pair == b"na")
        .count()
        > MAX_NEW_EXPRESSIONS
}

fn cpp(raw: &str) -> Option<String> {
    if !raw.starts_with("_Z") || has_too_many_new_expressions(raw) {
        return None;
    }
    let depth = ParseOptions::default().recursion_limit(PARSE_DEPTH);
    let symbol = BorrowedSymbol::new_with_options(raw.as_bytes(), &depth).ok()?;
    let depth = DemangleOptions::default().recursion_limit(PRINT_DEPTH);
    written(|out| symbol.structured_demangle(out, &depth))
}

/// Returns the text if it was written completely, or up to the limit.
fn written(write: impl FnOnce(&mut Limited) -> fmt::Result) -> Option<String> {
    let mut out = Limited::default();
    let whole = write(&mut out).is_ok();
    (whole || out.0.ends_with('…')).then_some(out.0)
}

#[cfg(test)]
mod tests;
