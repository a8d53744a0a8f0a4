//! Reads the numbers of JSON.
//!
//! Used by [`super::scan`]. Invariant: an accepted number is finite for every reader.

use std::io::Read;

use super::ChildJsonError;
use super::scan::{Checked, Scan};

/// Longest number. Our own writers need 25 bytes.
const NUMBER_BYTES: usize = 64;

/// Reading numbers: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
impl<R: Read> Scan<R> {
    pub(super) fn number(&mut self, first: u8) -> Checked<()> {
        let start = self.last();
        let mut text = NumberText::default();
        text.push(first, start)?;
        let first = if first == b'-' {
            self.digit(&mut text, start)?
        } else {
            first
        };
        if first != b'0' {
            self.digits(&mut text, start)?;
        }
        if self.accept(|byte| byte == b'.', &mut text, start)? {
            self.digit(&mut text, start)?;
            self.digits(&mut text, start)?;
        }
        if self.accept(|byte| byte | 0x20 == b'e', &mut text, start)? {
            self.accept(|byte| byte == b'+' || byte == b'-', &mut text, start)?;
            self.digit(&mut text, start)?;
            self.digits(&mut text, start)?;
            return text.check_range(start);
        }
        Ok(()) // without an exponent, 64 digits are always in range
    }

    fn digit(&mut self, text: &mut NumberText, start: u64) -> Checked<u8> {
        let byte = self.byte()?;
        if !byte.is_ascii_digit() {
            return self.not_json("a digit");
        }
        text.push(byte, start)?;
        Ok(byte)
    }

    fn digits(&mut self, text: &mut NumberText, start: u64) -> Checked<()> {
        while self.accept(|byte| byte.is_ascii_digit(), text, start)? {}
        Ok(())
    }

    fn accept(
        &mut self,
        fits: impl Fn(u8) -> bool,
        text: &mut NumberText,
        start: u64,
    ) -> Checked<bool> {
        let Some(byte) = self.peek()?.filter(|byte| fits(*byte)) else {
            return Ok(false);
        };
        self.next += 1;
        text.push(byte, start)?;
        Ok(true)
    }
}

/// The bytes of a number.
#[derive(Debug)]
struct NumberText {
    bytes: [u8; NUMBER_BYTES],
    length: usize,
}

impl Default for NumberText {
    fn default() -> Self {
        Self {
            bytes: [0; NUMBER_BYTES],
            length: 0,
        }
    }
}

impl NumberText {
    fn push(&mut self, byte: u8, start: u64) -> Checked<()> {
        let Some(room) = self.bytes.get_mut(self.length) else {
            return Err(ChildJsonError::NumberOutOfRange { at: start });
        };
        *room = byte;
        self.length += 1;
        Ok(())
    }

    /// Checks that the number is finite. With an exponent it may be infinite, which readers refuse.
    fn check_range(&self, start: u64) -> Checked<()> {
        let text = self
            .bytes
            .get(..self.length)
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        match text.and_then(|text| text.parse::<f64>().ok()) {
            Some(number) if number.is_finite() => Ok(()),
            _ => Err(ChildJsonError::NumberOutOfRange { at: start }),
        }
    }
}
