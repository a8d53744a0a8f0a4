//! Reads the texts of JSON: escapes, surrogates, UTF-8.
//!
//! Used by [`super::scan`]. Invariant: an accepted text is valid UTF-8, also after its escapes are
//! resolved.

use std::io::Read;

use super::ChildJsonError;
use super::scan::{Checked, Scan};

/// Longest member name that is reported; of longer names only the beginning is.
const NAME_BYTES: usize = 32;

/// Reading texts.
impl<R: Read> Scan<R> {
    /// Reads a text, after its opening quote. `on_byte` gets the text's bytes; escapes of plain
    /// letters are resolved, other escapes become a zero byte.
    pub(super) fn text(&mut self, mut on_byte: impl FnMut(u8)) -> Checked<()> {
        loop {
            self.plain_text(&mut on_byte)?;
            match self.byte()? {
                b'"' => return Ok(()),
                b'\\' => on_byte(self.escape()?),
                0..=0x1f => return self.not_json("no control character in a text"),
                first @ 0x80.. => {
                    on_byte(0);
                    self.rest_of_character(first)?;
                }
                plain => on_byte(plain), // the first after the buffer was refilled
            }
        }
    }

    /// The fast path: reads the plain bytes that are in the buffer.
    fn plain_text(&mut self, on_byte: &mut impl FnMut(u8)) -> Checked<()> {
        let ahead = self.ahead()?;
        let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x80..);
        let length = ahead.iter().position(special).unwrap_or(ahead.len());
        // Passes on at most the length of a name, which keeps the loop short for long texts.
        ahead
            .iter()
            .take(length.min(NAME_BYTES + 1))
            .for_each(|byte| on_byte(*byte));
        self.next += length;
        Ok(())
    }

    fn escape(&mut self) -> Checked<u8> {
        match self.byte()? {
            byte @ (b'"' | b'\\' | b'/') => Ok(byte),
            b'b' | b'f' | b'n' | b'r' | b't' => Ok(0),
            b'u' => self.unicode_escape(),
            _ => self.not_json("an escape"),
        }
    }

    fn unicode_escape(&mut self) -> Checked<u8> {
        let at = self.last();
        match self.four_digits()? {
            0xd800..=0xdbff => {
                let low = self.byte()? == b'\\' && self.byte()? == b'u';
                match low && matches!(self.four_digits()?, 0xdc00..=0xdfff) {
                    true => Ok(0),
                    false => Err(ChildJsonError::LoneSurrogate { at }),
                }
            }
            0xdc00..=0xdfff => Err(ChildJsonError::LoneSurrogate { at }),
            code => Ok(u8::try_from(code).ok().filter(u8::is_ascii).unwrap_or(0)),
        }
    }

    fn four_digits(&mut self) -> Checked<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.byte()?).to_digit(16) else {
                return self.not_json("a hexadecimal digit");
            };
            code = code << 4 | digit;
        }
        Ok(code)
    }

    /// The continuation bytes of a character, as RFC 3629 allows them.
    fn rest_of_character(&mut self, first: u8) -> Checked<()> {
        let (low, high, more) = match first {
            0xc2..=0xdf => (0x80, 0xbf, 0),
            0xe0 => (0xa0, 0xbf, 1),
            0xed => (0x80, 0x9f, 1),
            0xe1..=0xef => (0x80, 0xbf, 1),
            0xf0 => (0x90, 0xbf, 2),
            0xf1..=0xf3 => (0x80, 0xbf, 2),
            0xf4 => (0x80, 0x8f, 2),
            _ => return Err(ChildJsonError::NotUtf8 { at: self.last() }),
        };
        self.continuation(low, high)?;
        (0..more).try_for_each(|_| self.continuation(0x80, 0xbf))
    }

    fn continuation(&mut self, low: u8, high: u8) -> Checked<()> {
        match self.byte()? {
            byte if (low..=high).contains(&byte) => Ok(()),
            _ => Err(ChildJsonError::NotUtf8 { at: self.last() }),
        }
    }
}

/// The beginning of a member's name. It is longer than every known name, so a name that was cut
/// equals none of them.
#[derive(Debug, Default)]
pub(super) struct Name {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Name {
    pub(super) fn push(&mut self, byte: u8) {
        if let Some(room) = self.bytes.get_mut(self.length) {
            *room = byte;
            self.length += 1;
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
