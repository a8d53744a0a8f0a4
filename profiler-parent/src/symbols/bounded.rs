//! JSON of a bounded length: whoever asks decides how long an answer would be, and we how long it may be.
//!
//! Used by [`super::server_api`] and by the view's answer of somebody who has no symbols.

use std::io::{self, Write};

use serde::Serialize;

/// Longest answer in bytes.
pub(crate) const LONGEST_ANSWER: usize = 128 << 20;
/// Longest name of a library in a question; the answer repeats it for every address.
pub(crate) const LONGEST_NAME: usize = 4096;

/// Takes bytes up to a length.
struct Bounded {
    bytes: Vec<u8>,
    most: usize,
}

impl Write for Bounded {
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

/// A value as JSON; `None` if that takes more than `most` bytes. It is made piece by piece: of what is too long no more
/// than that is ever in memory.
pub(crate) fn to_json(value: &impl Serialize, most: usize) -> Option<String> {
    let mut out = Bounded { bytes: Vec::new(), most };
    serde_json::to_writer(&mut out, value).ok()?;
    String::from_utf8(out.bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_it_may_be_is_given_up_early() {
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
