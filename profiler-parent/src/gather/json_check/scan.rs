//! Reads the grammar of JSON from a stream, through one buffer.
//!
//! Used by [`super::check`]; `number` and `text` hold the other parts of the grammar. Values are
//! read by recursion that is at most [`MAX_DEPTH`] deep. Every function leaves the scan just after
//! the text that it read; `at` counts bytes from the beginning.

use std::io::{ErrorKind, Read};

use super::text::Name;
use super::{ChildJsonError, MAX_DEPTH};

const BUFFER_BYTES: usize = 64 * 1024;

/// The kind of value that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Object,
    Array,
    Other,
}

pub(super) type Checked<T> = Result<T, ChildJsonError>;
type OnMember<'a, R> = &'a mut dyn FnMut(&mut Scan<R>, &[u8]) -> Checked<()>;
type OnElement<'a, R> = &'a mut dyn FnMut(&mut Scan<R>) -> Checked<()>;

/// A stream of bytes, being read as JSON.
#[derive(Debug)]
pub(super) struct Scan<R> {
    input: R,
    limit: u64,
    buffer: Box<[u8]>,
    /// The filled length of the buffer, and the length already read.
    filled: usize,
    pub(super) next: usize,
    /// Bytes before the buffer.
    before: u64,
}

/// Reading bytes.
impl<R: Read> Scan<R> {
    pub(super) fn new(input: R, limit: u64) -> Self {
        Self {
            input,
            limit,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            filled: 0,
            next: 0,
            before: 0,
        }
    }

    /// Bytes read so far.
    fn at(&self) -> u64 {
        self.before
            .saturating_add(u64::try_from(self.next).unwrap_or(u64::MAX))
    }

    /// The unread part of the buffer; empty only at the end of the input.
    pub(super) fn ahead(&mut self) -> Checked<&[u8]> {
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
        let end = self
            .before
            .saturating_add(u64::try_from(self.filled).unwrap_or(u64::MAX));
        if end > self.limit {
            Err(ChildJsonError::TooLarge { limit: self.limit })
        } else {
            Ok(())
        }
    }

    pub(super) fn peek(&mut self) -> Checked<Option<u8>> {
        Ok(self.ahead()?.first().copied())
    }

    pub(super) fn byte(&mut self) -> Checked<u8> {
        let Some(byte) = self.peek()? else {
            return Err(ChildJsonError::Cut { at: self.at() });
        };
        self.next += 1;
        Ok(byte)
    }

    /// The error about the byte that was just read.
    pub(super) fn not_json<T>(&self, expected: &'static str) -> Checked<T> {
        Err(ChildJsonError::NotJson {
            at: self.last(),
            expected,
        })
    }

    /// The offset of the byte that was just read.
    pub(super) fn last(&self) -> u64 {
        self.at().saturating_sub(1)
    }

    fn skip_space(&mut self) -> Checked<()> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek()? {
            self.next += 1;
        }
        Ok(())
    }

    /// Checks that the input has ended. Returns its length.
    pub(super) fn expect_end(&mut self) -> Checked<u64> {
        match self.peek()? {
            Some(_) => Err(ChildJsonError::Trailing { at: self.at() }),
            None => Ok(self.at()),
        }
    }
}

/// Reading values.
impl<R: Read> Scan<R> {
    /// Reads exactly this opening byte.
    pub(super) fn open(&mut self, bracket: u8, expected: &'static str) -> Checked<()> {
        if self.byte()? == bracket {
            Ok(())
        } else {
            self.not_json(expected)
        }
    }

    /// The first byte of the next value, which stays unread.
    pub(super) fn peek_value(&mut self) -> Checked<u8> {
        self.skip_space()?;
        self.peek()?.ok_or(ChildJsonError::Cut { at: self.at() })
    }

    /// Reads a value inside a container of level `depth`.
    pub(super) fn value(&mut self, depth: usize) -> Checked<Found> {
        self.skip_space()?;
        match self.byte()? {
            b'{' => self
                .members(depth + 1, &mut |scan, _| scan.value(depth + 1).map(|_| ()))
                .map(|()| Found::Object),
            b'[' => self
                .elements(depth + 1, &mut |scan| scan.value(depth + 1).map(|_| ()))
                .map(|()| Found::Array),
            b'"' => self.text(|_| ()).map(|()| Found::Other),
            b't' => self.word(b"rue"),
            b'f' => self.word(b"alse"),
            b'n' => self.word(b"ull"),
            first @ (b'-' | b'0'..=b'9') => self.number(first).map(|()| Found::Other),
            _ => self.not_json("a value"),
        }
    }

    /// Reads the members of an object of level `depth`, after its opening bracket. `on_member` gets
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

    /// Reads the elements of an array of level `depth`, after its opening bracket. `on_element`
    /// reads each element.
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
        if depth > MAX_DEPTH {
            Err(ChildJsonError::TooDeep { at: self.last() })
        } else {
            Ok(())
        }
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
