//! Writes JSON of bounded length, because a client could otherwise request an answer of any length.
//!
//! Used by [`super::server_api`] and by the view's answer without symbols.

use std::io::{self, Write};

use serde::Serialize;

/// Limit on the length of an answer, in bytes.
pub const LONGEST_ANSWER: usize = 128 << 20;
/// Limit on the length of a library name in a request; the answer repeats it for every address.
pub const LONGEST_NAME: usize = 4096;

/// A writer that accepts a limited number of bytes.
struct BoundedJson {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for BoundedJson {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serializes a value as JSON; `None` if the text has more than `most` bytes. The text is written
/// piece by piece, so at most `most` bytes of it are in memory.
pub fn to_json(value: &impl Serialize, most: usize) -> Option<String> {
    let mut out = BoundedJson {
        bytes: Vec::new(),
        most,
    };
    serde_json::to_writer(&mut out, value).ok()?;
    String::from_utf8(out.bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialization_stops_at_the_limit() {
        let endless = std::iter::repeat_n("text", usize::MAX);
        struct Endless<I>(std::cell::Cell<Option<I>>);
        impl<I: Iterator<Item = &'static str>> Serialize for Endless<I> {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_seq(self.0.take().into_iter().flatten())
            }
        }
        assert_eq!(to_json(&Endless(Some(endless).into()), 100), None);
        assert_eq!(to_json(&["a", "b"], 9).as_deref(), Some(r#"["a","b"]"#));
        assert_eq!(to_json(&["a", "b"], 8), None);
    }
}
