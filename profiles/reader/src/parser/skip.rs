//! Passes over a value without reading it, and checks that it is well-formed.
//!
//! Used by [`super::Parser`]. The text comes in pieces, so a skipped value may be longer than
//! memory. The extents of long lists and objects are noted, so that a second pass can jump over
//! them. Invariants: a value that serde_json refuses is refused here, too; memory is bounded by
//! [`DEEPEST`].

use profiler_json::position_of_escape;

use super::extents::Extents;
use super::number;

/// The token that may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    /// The rest of a string.
    Text,
    /// The rest of a key.
    TextOfKey,
    /// Nothing: the value is complete.
    Nothing,
}

/// The limit on the nesting of values that are skipped: each open list or object needs a byte.
const DEEPEST: usize = 1 << 20;

/// The number of nested values whose places are noted.
const NOTED: usize = 8;

/// A value that is being skipped.
#[derive(Debug)]
pub(super) struct Skip {
    next: Next,
    /// The closing brackets of the open objects and lists.
    open: Vec<u8>,
    /// The positions of the outermost of them.
    starts: [u64; NOTED],
    /// Whether the innermost open value is a list.
    is_in_list: bool,
}

impl Skip {
    pub(super) const fn new() -> Self {
        Self {
            next: Next::Nothing,
            open: Vec::new(),
            starts: [0; NOTED],
            is_in_list: false,
        }
    }

    /// Begins before a value.
    pub(super) fn begin(&mut self) {
        self.open.clear();
        self.is_in_list = false;
        self.next = Next::Value;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.next == Next::Nothing
    }

    /// Skips as much of `text` as possible; `position` is its position in the whole text. Returns
    /// the number of bytes; the following bytes are the beginning of a word that is not complete
    /// yet, unless `is_last`.
    ///
    /// # Errors
    /// The position of a wrong byte, and what was expected there.
    pub(super) fn run(
        &mut self,
        text: &[u8],
        is_last: bool,
        position: u64,
        noted: &mut Extents,
    ) -> Result<usize, (usize, &'static str)> {
        let mut at = 0;
        while let Some((byte, rest)) = text.get(at..).and_then(|rest| Some((*rest.first()?, rest)))
        {
            let wrong = |expected| (at, expected);
            let taken = match self.next {
                Next::Value | Next::ValueOrEnd => match byte {
                    b'"' => {
                        self.next = Next::Text;
                        self.text(rest, 1).map_err(wrong)?
                    }
                    b'-' | b'0'..=b'9' => match number::length(rest, is_last).map_err(wrong)? {
                        Some(length) => self.end_value(rest, length),
                        None => break,
                    },
                    b'[' | b'{' => self.open(byte, position + at as u64).map_err(wrong)?,
                    b']' if self.next == Next::ValueOrEnd => {
                        self.close(rest, position + at as u64, noted)
                    }
                    b' ' | b'\n' | b'\t' | b'\r' => 1,
                    _ => match word_length(rest).map_err(wrong)? {
                        Some(length) => self.end_value(rest, length),
                        None => break,
                    },
                },
                Next::Text | Next::TextOfKey => self.text(rest, 0).map_err(wrong)?,
                Next::Nothing => break,
                _ if matches!(byte, b' ' | b'\n' | b'\t' | b'\r') => 1,
                Next::Key | Next::KeyOrEnd if byte == b'"' => {
                    self.next = Next::TextOfKey;
                    self.text(rest, 1).map_err(wrong)?
                }
                Next::CommaOrEnd if byte == b',' => {
                    self.next = self.after_comma();
                    1
                }
                Next::CommaOrEnd if Some(&byte) == self.open.last() => {
                    self.close(rest, position + at as u64, noted)
                }
                Next::Colon if byte == b':' => {
                    self.next = Next::Value;
                    1
                }
                Next::KeyOrEnd if byte == b'}' => self.close(rest, position + at as u64, noted),
                Next::CommaOrEnd => return Err(wrong("a comma or a closing bracket")),
                Next::Colon => return Err(wrong("a colon")),
                Next::Key | Next::KeyOrEnd => return Err(wrong("a key")),
            };
            if taken == 0 {
                break;
            }
            at += taken;
        }
        Ok(at)
    }

    /// Skips the rest of a string from `start` on: plain characters up to the closing quotation
    /// mark or the next escape.
    #[inline]
    fn text(&mut self, rest: &[u8], start: usize) -> Result<usize, &'static str> {
        let inner = rest.get(start..).unwrap_or_default();
        let plain = start + position_of_escape(inner).unwrap_or(inner.len());
        match rest.get(plain) {
            None => Ok(plain),
            Some(b'"') if self.next == Next::Text => Ok(self.end_value(rest, plain + 1)),
            Some(b'"') if rest.get(plain + 1) == Some(&b':') => {
                self.next = Next::Value;
                Ok(plain + 2)
            }
            Some(b'"') => {
                self.next = Next::Colon;
                Ok(plain + 1)
            }
            Some(b'\\') => Ok(plain + escape(rest.get(plain..).unwrap_or_default())?),
            Some(_) => Err("a string without control characters"),
        }
    }

    /// Ends a value of this length, and takes the comma after it.
    #[inline]
    fn end_value(&mut self, rest: &[u8], length: usize) -> usize {
        if self.open.is_empty() {
            self.next = Next::Nothing;
            return length;
        }
        if rest.get(length) == Some(&b',') {
            self.next = self.after_comma();
            return length + 1;
        }
        self.next = Next::CommaOrEnd;
        length
    }

    #[inline]
    const fn after_comma(&self) -> Next {
        if self.is_in_list {
            Next::Value
        } else {
            Next::Key
        }
    }

    #[inline]
    fn open(&mut self, bracket: u8, start: u64) -> Result<usize, &'static str> {
        if self.open.len() >= DEEPEST {
            return Err("less nesting");
        }
        self.is_in_list = bracket == b'[';
        let (close, next) = match self.is_in_list {
            true => (b']', Next::ValueOrEnd),
            false => (b'}', Next::KeyOrEnd),
        };
        self.next = next;
        if let Some(place) = self.starts.get_mut(self.open.len()) {
            *place = start;
        }
        self.open.push(close);
        Ok(1)
    }

    #[inline]
    fn close(&mut self, rest: &[u8], position: u64, noted: &mut Extents) -> usize {
        self.open.pop();
        if let Some(start) = self.starts.get(self.open.len()) {
            noted.note(*start, position + 1);
        }
        self.is_in_list = self.open.last() == Some(&b']');
        self.end_value(rest, 1)
    }
}

/// The length of null, true or false; `None` if it is not complete.
fn word_length(rest: &[u8]) -> Result<Option<usize>, &'static str> {
    let word = rest
        .first()
        .and_then(|first| word(*first))
        .ok_or("a value")?;
    let begun = rest.get(..word.len()).unwrap_or(rest);
    match word.starts_with(begun) {
        true if begun.len() == word.len() => Ok(Some(word.len())),
        true => Ok(None),
        false => Err("a value"),
    }
}

/// The length of an escape; 0 if it may not be complete.
fn escape(rest: &[u8]) -> Result<usize, &'static str> {
    match rest.get(1) {
        None => Ok(0),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(2),
        Some(b'u') => {
            let digits = rest.get(2..).unwrap_or_default().iter().take(4);
            let known = digits.take_while(|byte| byte.is_ascii_hexdigit()).count();
            match known {
                4 => Ok(6),
                _ if rest.len() == 2 + known => Ok(0),
                _ => Err("a hexadecimal digit"),
            }
        }
        Some(_) => Err("an escape"),
    }
}

/// The word that begins with a byte.
pub(super) const fn word(first: u8) -> Option<&'static [u8]> {
    match first {
        b'n' => Some(b"null"),
        b't' => Some(b"true"),
        b'f' => Some(b"false"),
        _ => None,
    }
}
