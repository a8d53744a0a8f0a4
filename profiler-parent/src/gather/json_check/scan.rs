//! The grammar of JSON, read from a stream in one buffer.
//!
//! Used by [`super::check`]. Values are read by recursion that is at most [`MAX_DEPTH`] deep.
//! Every function leaves the scan behind what it read; `at` counts bytes from the beginning.

use std::io::{ErrorKind, Read};

use super::{ChildJsonError, MAX_DEPTH};

const BUFFER_BYTES: usize = 64 * 1024;

/// Longest member name that is told; longer ones are read, but told as cut.
const NAME_BYTES: usize = 32;

/// Longest number. Our own writers need 25 bytes.
const NUMBER_BYTES: usize = 64;

/// What kind of value was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Object,
    Array,
    Other,
}

type Checked<T> = Result<T, ChildJsonError>;
type OnMember<'a, R> = &'a mut dyn FnMut(&mut Scan<R>, &[u8]) -> Checked<()>;
type OnElement<'a, R> = &'a mut dyn FnMut(&mut Scan<R>) -> Checked<()>;

/// A stream of bytes, being read as JSON.
#[derive(Debug)]
pub(super) struct Scan<R> {
    input: R,
    limit: u64,
    buffer: Box<[u8]>,
    /// What of the buffer is filled, and how much of that was read.
    filled: usize,
    next: usize,
    /// Bytes before the buffer.
    before: u64,
}

/// Reading bytes.
impl<R: Read> Scan<R> {
    pub(super) fn new(input: R, limit: u64) -> Self {
        Self { input, limit, buffer: vec![0; BUFFER_BYTES].into_boxed_slice(), filled: 0, next: 0, before: 0 }
    }

    /// Bytes read so far.
    fn at(&self) -> u64 {
        self.before.saturating_add(u64::try_from(self.next).unwrap_or(u64::MAX))
    }

    /// What is in the buffer and not yet read; empty only at the end of the input.
    fn ahead(&mut self) -> Checked<&[u8]> {
        if self.next == self.filled {
            self.fill()?;
        }
        Ok(self.buffer.get(self.next..self.filled).unwrap_or_default())
    }

    fn fill(&mut self) -> Checked<()> {
        self.before = self.at();
        (self.next, self.filled) = (0, 0);
        self.filled = loop {
            match self.input.read(&mut self.buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(ChildJsonError::Read(error)),
                Ok(got) => break got.min(self.buffer.len()),
            }
        };
        let end = self.before.saturating_add(u64::try_from(self.filled).unwrap_or(u64::MAX));
        if end > self.limit { Err(ChildJsonError::TooLarge { limit: self.limit }) } else { Ok(()) }
    }

    fn peek(&mut self) -> Checked<Option<u8>> {
        Ok(self.ahead()?.first().copied())
    }

    fn byte(&mut self) -> Checked<u8> {
        let Some(byte) = self.peek()? else { return Err(ChildJsonError::Cut { at: self.at() }) };
        self.next += 1;
        Ok(byte)
    }

    /// The complaint about the byte that was just read.
    fn not_json<T>(&self, expected: &'static str) -> Checked<T> {
        Err(ChildJsonError::NotJson { at: self.last(), expected })
    }

    /// Where the byte that was just read stands.
    fn last(&self) -> u64 {
        self.at().saturating_sub(1)
    }

    fn skip_space(&mut self) -> Checked<()> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek()? {
            self.next += 1;
        }
        Ok(())
    }

    /// The input must be over. Says how long it was.
    pub(super) fn expect_end(&mut self) -> Checked<u64> {
        match self.peek()? {
            Some(_) => Err(ChildJsonError::Trailing { at: self.at() }),
            None => Ok(self.at()),
        }
    }
}

/// Reading values.
impl<R: Read> Scan<R> {
    /// Reads exactly this byte, which opens something.
    pub(super) fn open(&mut self, bracket: u8, expected: &'static str) -> Checked<()> {
        if self.byte()? == bracket { Ok(()) } else { self.not_json(expected) }
    }

    /// The first byte of the value that follows, which stays unread.
    pub(super) fn peek_value(&mut self) -> Checked<u8> {
        self.skip_space()?;
        self.peek()?.ok_or(ChildJsonError::Cut { at: self.at() })
    }

    /// Reads a value that stands in something of level `depth`.
    pub(super) fn value(&mut self, depth: usize) -> Checked<Found> {
        self.skip_space()?;
        match self.byte()? {
            b'{' => self
                .members(depth + 1, &mut |scan, _| scan.value(depth + 1).map(|_| ()))
                .map(|()| Found::Object),
            b'[' => {
                self.elements(depth + 1, &mut |scan| scan.value(depth + 1).map(|_| ())).map(|()| Found::Array)
            }
            b'"' => self.text(|_| ()).map(|()| Found::Other),
            b't' => self.word(b"rue"),
            b'f' => self.word(b"alse"),
            b'n' => self.word(b"ull"),
            first @ (b'-' | b'0'..=b'9') => self.number(first).map(|()| Found::Other),
            _ => self.not_json("a value"),
        }
    }

    /// Reads the members of an object of level `depth`, whose bracket was read. `on_member` gets
    /// each name and reads the value.
    pub(super) fn members(&mut self, depth: usize, on_member: OnMember<'_, R>) -> Checked<()> {
        self.check_depth(depth)?;
        self.skip_space()?;
        let mut byte = self.byte()?;
        if byte == b'}' {
            return Ok(());
        }
        loop {
            if byte != b'"' {
                return self.not_json("a name");
            }
            self.member(on_member)?;
            match self.after_space()? {
                b'}' => return Ok(()),
                b',' => byte = self.after_space()?,
                _ => return self.not_json("a comma or the object's end"),
            }
        }
    }

    fn member(&mut self, on_member: OnMember<'_, R>) -> Checked<()> {
        let mut name = Name::default();
        self.text(|byte| name.push(byte))?;
        if self.after_space()? != b':' {
            return self.not_json("a colon");
        }
        on_member(self, name.bytes())
    }

    /// Reads the elements of an array of level `depth`, whose bracket was read. `on_element`
    /// reads each.
    pub(super) fn elements(&mut self, depth: usize, on_element: OnElement<'_, R>) -> Checked<()> {
        self.check_depth(depth)?;
        if self.peek_value()? == b']' {
            self.next += 1;
            return Ok(());
        }
        loop {
            on_element(self)?;
            match self.after_space()? {
                b']' => return Ok(()),
                b',' => {}
                _ => return self.not_json("a comma or the array's end"),
            }
        }
    }

    fn check_depth(&self, depth: usize) -> Checked<()> {
        if depth > MAX_DEPTH { Err(ChildJsonError::TooDeep { at: self.last() }) } else { Ok(()) }
    }

    fn after_space(&mut self) -> Checked<u8> {
        self.skip_space()?;
        self.byte()
    }

    fn word(&mut self, rest: &[u8]) -> Checked<Found> {
        for expected in rest {
            if self.byte()? != *expected {
                return self.not_json("true, false or null");
            }
        }
        Ok(Found::Other)
    }
}

/// Reading numbers: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`
impl<R: Read> Scan<R> {
    fn number(&mut self, first: u8) -> Checked<()> {
        let start = self.last();
        let mut text = NumberText::default();
        text.push(first, start)?;
        let first = if first == b'-' { self.digit(&mut text, start)? } else { first };
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
        Ok(()) // 64 digits are always in range
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

    fn accept(&mut self, fits: impl Fn(u8) -> bool, text: &mut NumberText, start: u64) -> Checked<bool> {
        let Some(byte) = self.peek()?.filter(|byte| fits(*byte)) else { return Ok(false) };
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
        Self { bytes: [0; NUMBER_BYTES], length: 0 }
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

    /// With an exponent it may be infinite, which JSON cannot say and readers refuse.
    fn check_range(&self, start: u64) -> Checked<()> {
        let text = self.bytes.get(..self.length).and_then(|bytes| std::str::from_utf8(bytes).ok());
        match text.and_then(|text| text.parse::<f64>().ok()) {
            Some(number) if number.is_finite() => Ok(()),
            _ => Err(ChildJsonError::NumberOutOfRange { at: start }),
        }
    }
}

/// Reading texts.
impl<R: Read> Scan<R> {
    /// Reads a text whose quote was read. `on_byte` gets the text's bytes; escapes of plain
    /// letters are resolved, others stand for themselves as a zero byte.
    fn text(&mut self, mut on_byte: impl FnMut(u8)) -> Checked<()> {
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
                plain => on_byte(plain), // the first after the buffer was filled again
            }
        }
    }

    /// The short cut: bytes that mean nothing but themselves, as many as are in the buffer.
    fn plain_text(&mut self, on_byte: &mut impl FnMut(u8)) -> Checked<()> {
        let ahead = self.ahead()?;
        let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f | 0x80..);
        let length = ahead.iter().position(special).unwrap_or(ahead.len());
        // No more than a name can use: this keeps the loop off the path of long texts.
        ahead.iter().take(length.min(NAME_BYTES + 1)).for_each(|byte| on_byte(*byte));
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

    /// The bytes of a character after its first, as RFC 3629 allows them.
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

/// The beginning of a member's name; longer than any name we look for means "another one".
#[derive(Debug, Default)]
struct Name {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Name {
    fn push(&mut self, byte: u8) {
        if let Some(room) = self.bytes.get_mut(self.length) {
            *room = byte;
            self.length += 1;
        }
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}
