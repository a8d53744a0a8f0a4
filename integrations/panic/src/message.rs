//! The texts of a panic: its message, its place, and whether it only reports that another panic
//! cannot unwind.

use std::fmt::Write;
use std::panic::{Location, PanicHookInfo};

/// The message of a payload that is no text, as the standard library's hook prints it.
const NO_TEXT: &str = "Box<dyn Any>";
/// The file in which the standard library panics when an unwinding must not go on.
const RAISED_IN: &str = "core/src/panicking.rs";
/// The messages of these panics.
const CANNOT_UNWIND: [&str; 2] = [
    "panic in a function that cannot unwind",
    "panic in a destructor during cleanup",
];

/// The message of a panic.
pub(crate) fn message_of<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    info.payload_as_str().unwrap_or(NO_TEXT)
}

/// Whether the standard library panics because the unwinding of another panic met a function that
/// it may not leave. The process aborts after this panic.
///
/// The standard library does not promise these texts. If they change, such a panic is recorded like
/// any other.
pub(crate) fn is_end_of_unwinding(message: &str, file: &str) -> bool {
    file.ends_with(RAISED_IN) && CANNOT_UNWIND.contains(&message)
}

/// The place of a panic: `src/main.rs:3:5`.
pub(crate) fn place_of(location: &Location<'_>) -> String {
    let mut text = bounded(location.file()).into_owned();
    let (line, column) = (location.line(), location.column());
    let _ = write!(text, ":{line}:{column}"); // writing to a string does not fail
    text
}

/// The beginning of a text of any length, with "…" if it is cut.
pub(crate) fn bounded(text: &str) -> std::borrow::Cow<'_, str> {
    const MAX: usize = 4096;
    if text.len() <= MAX {
        return text.into();
    }
    let end = text.floor_char_boundary(MAX - '…'.len_utf8());
    let beginning = text.get(..end).unwrap_or_default();
    format!("{beginning}…").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(bounded("short"), "short");
        assert_eq!(bounded(&"x".repeat(4096)).len(), 4096);
        let cut = bounded(&"ä".repeat(4096)).into_owned();
        assert!(cut.len() <= 4096 && cut.ends_with("ä…"));
    }

    #[test]
    fn only_the_standard_library_ends_an_unwinding() {
        let raised_in = "/rustc/0123/library/core/src/panicking.rs";
        assert!(is_end_of_unwinding(CANNOT_UNWIND[0], raised_in));
        assert!(!is_end_of_unwinding(CANNOT_UNWIND[0], "src/main.rs"));
        assert!(!is_end_of_unwinding("index out of bounds", raised_in));
    }
}
