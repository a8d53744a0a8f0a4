//! A panic in the words of a verdict.
//!
//! Made by `panic_evidence`, shown by `verdict`. Invariant: the texts come from the memory of
//! another process; they are bounded by their decoder and have no control characters.

use std::fmt;

use profiler_core::internal::reader::PanicInfo;
use serde::Serialize;

/// A panic, as a verdict names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PanicText {
    /// The name of the thread that panicked; empty if it has none.
    pub thread: String,
    /// The place, such as `src/main.rs:3:5`.
    pub location: String,
    /// The beginning of the message, in one line.
    pub message: String,
}

impl PanicText {
    pub(super) fn new(panic: &PanicInfo) -> Self {
        let (file, line, column) = (&panic.file, panic.line, panic.column);
        Self {
            thread: one_line(&panic.thread),
            location: format!("{}:{line}:{column}", one_line(file)),
            message: one_line(&panic.message),
        }
    }
}

impl fmt::Display for PanicText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = match self.thread.as_str() {
            "" => "a thread",
            name => name,
        };
        write!(f, "{thread} panicked at {}", self.location)?;
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

/// Text without control characters, and with one space where there was any white space.
pub(super) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_without_a_name_and_a_message_has_a_text() {
        let panic = PanicText {
            thread: String::new(),
            location: "src/x.rs:3:5".to_owned(),
            message: String::new(),
        };
        assert_eq!(panic.to_string(), "a thread panicked at src/x.rs:3:5");
    }

    #[test]
    fn a_message_is_shown_in_one_line() {
        assert_eq!(
            one_line("left: 1\n\tright:\x1b[31m 2 "),
            "left: 1 right: [31m 2"
        );
    }
}
