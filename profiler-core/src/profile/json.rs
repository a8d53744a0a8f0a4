//! Streaming JSON writer: the bottom of every profile writer.
//!
//! All writers of profiles call it; it knows nothing of them. Its whole state is a 64 KiB
//! buffer and one flag, "a comma is due", so it neither recurses nor keeps a stack, and no
//! order of calls can make it panic. Calls do not fail: the first error of the output is
//! kept, everything after it is thrown away, and [`JsonWriter::finish`] returns it; long
//! loops ask [`JsonWriter::is_failed`] now and then.
//!
//! Invariants: strings are valid UTF-8 and fully escaped; numbers are finite (what is not
//! becomes `null`). That every `begin` has its `end` and that keys stand only in objects is
//! the caller's part.

use std::io::{self, Write};

use self::escape::{escaped, first_escape};
use self::number::{Characters, EIGHT_DIGITS};

mod escape;
mod number;
#[cfg(test)]
mod tests;

/// Bytes that are collected before they go to the output.
const BUFFER_BYTES: usize = 64 * 1024;

/// Writes JSON into `W`, see the [module](self).
#[derive(Debug)]
pub struct JsonWriter<W: Write> {
    out: W,
    buffer: Box<[u8]>,
    /// How much of the buffer is filled.
    filled: usize,
    comma_due: bool,
    flushed: u64,
    failure: Option<io::Error>,
}

/// A key that is written many times: `,"key":`, escaped once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedKey(String);

impl PreparedKey {
    /// Escapes `key`.
    pub fn new(key: &str) -> Self {
        let mut writer = JsonWriter::new(Vec::new());
        writer.comma_due = true;
        writer.key(key);
        // A vector takes everything and the writer puts nothing but UTF-8 in it.
        Self(writer.finish().ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default())
    }
}

impl<W: Write> JsonWriter<W> {
    /// A writer at the beginning of a JSON text.
    pub fn new(out: W) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { out, buffer, filled: 0, comma_due: false, flushed: 0, failure: None }
    }

    /// Whether the output has failed; nothing reaches it any more.
    pub const fn is_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Bytes written so far, the buffered ones included.
    pub fn bytes_written(&self) -> u64 {
        self.flushed.saturating_add(u64::try_from(self.filled).unwrap_or(u64::MAX))
    }

    /// Writes what is buffered and gives the output back.
    ///
    /// # Errors
    /// The first error that the output returned at any time.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_buffer();
        if self.failure.is_none() {
            self.failure = self.out.flush().err();
        }
        match self.failure {
            Some(error) => Err(error),
            None => Ok(self.out),
        }
    }

    /// `{`
    #[inline]
    pub fn begin_object(&mut self) {
        self.open(b'{');
    }

    /// `}`
    #[inline]
    pub fn end_object(&mut self) {
        self.close(b'}');
    }

    /// `[`
    #[inline]
    pub fn begin_array(&mut self) {
        self.open(b'[');
    }

    /// `]`
    #[inline]
    pub fn end_array(&mut self) {
        self.close(b']');
    }

    /// The key of the next value of an object.
    #[inline]
    pub fn key(&mut self, key: &str) {
        self.separate();
        self.quoted(key);
        self.push(b':');
        self.comma_due = false;
    }

    /// The key of the next value, escaped beforehand.
    #[inline]
    pub fn prepared_key(&mut self, key: &PreparedKey) {
        let skipped = usize::from(!self.comma_due);
        self.put(key.0.as_bytes().get(skipped..).unwrap_or(&[]));
        self.comma_due = false;
    }

    /// A string, escaped as needed.
    #[inline]
    pub fn string(&mut self, text: &str) {
        self.separate();
        self.quoted(text);
    }

    /// `null`
    #[inline]
    pub fn null(&mut self) {
        self.raw("null");
    }

    /// `true` or `false`
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    /// An unsigned integer, exactly (a viewer in JavaScript rounds beyond 2^53).
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.separate();
        self.digits(value);
    }

    /// A signed integer, exactly.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.separate();
        self.sign(value);
        self.digits(value.unsigned_abs());
    }

    /// A floating-point number in the shortest form that reads back as the same number;
    /// `null` for infinities and for what is not a number.
    pub fn f64(&mut self, value: f64) {
        if !value.is_finite() {
            return self.null();
        }
        let mut digits = zmij::Buffer::new();
        let text = digits.format_finite(value);
        self.raw(text.strip_suffix(".0").unwrap_or(text));
    }

    /// A time in nanoseconds as milliseconds: at most 6 decimals, no trailing zeros.
    #[inline]
    pub fn millis_ns(&mut self, ns: i64) {
        self.separate();
        self.sign(ns);
        let (whole, decimals) = number::millis(ns.unsigned_abs());
        self.digits(whole);
        self.put_characters(decimals);
    }

    /// One value that is JSON already. The caller vouches that it is well-formed.
    #[inline]
    pub fn raw(&mut self, json: &str) {
        self.separate();
        self.put(json.as_bytes());
    }

    #[inline]
    fn open(&mut self, bracket: u8) {
        self.separate();
        self.push(bracket);
        self.comma_due = false;
    }

    #[inline]
    fn close(&mut self, bracket: u8) {
        self.push(bracket);
        self.comma_due = true;
    }

    /// Writes the comma that is due; after the value that follows, another one is.
    #[inline]
    fn separate(&mut self) {
        if self.comma_due {
            self.push(b',');
        }
        self.comma_due = true;
    }

    #[inline]
    fn sign(&mut self, value: i64) {
        if value < 0 {
            self.push(b'-');
        }
    }

    #[inline]
    fn digits(&mut self, value: u64) {
        if value < EIGHT_DIGITS {
            self.put_characters(number::short_digits(value));
        } else {
            self.many_digits(value);
        }
    }

    fn many_digits(&mut self, value: u64) {
        let (high, low) = (value / EIGHT_DIGITS, value % EIGHT_DIGITS);
        if high < EIGHT_DIGITS {
            self.put_characters(number::short_digits(high));
        } else {
            self.put_characters(number::short_digits(high / EIGHT_DIGITS));
            self.put_characters(number::all_digits(high % EIGHT_DIGITS));
        }
        self.put_characters(number::all_digits(low));
    }

    #[inline]
    fn quoted(&mut self, text: &str) {
        self.push(b'"');
        match first_escape(text.as_bytes()) {
            None => self.put(text.as_bytes()),
            Some(at) => self.put_escaped(text.as_bytes(), at),
        }
        self.push(b'"');
    }

    #[cold]
    fn put_escaped(&mut self, text: &[u8], first: usize) {
        let mut rest = text;
        let mut next = Some(first);
        while let Some((plain, [byte, after @ ..])) = next.and_then(|at| rest.split_at_checked(at)) {
            self.put(plain);
            let (escape, length) = escaped(*byte);
            self.put(escape.get(..length).unwrap_or(&escape));
            rest = after;
            next = first_escape(rest);
        }
        self.put(rest);
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        self.put(&[byte]);
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.filled.saturating_add(bytes.len());
        match self.buffer.get_mut(self.filled..end) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.filled = end;
            }
            None => self.put_beyond(bytes),
        }
    }

    /// Stores all eight bytes, then takes back those that do not count.
    #[inline]
    fn put_characters(&mut self, characters: Characters) {
        self.put(&characters.bytes);
        let surplus = characters.bytes.len().saturating_sub(characters.len);
        self.filled = self.filled.saturating_sub(surplus);
    }

    #[cold]
    fn put_beyond(&mut self, bytes: &[u8]) {
        self.flush_buffer();
        match self.buffer.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.filled = bytes.len();
            }
            None => self.write_out(bytes),
        }
    }

    fn flush_buffer(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.write_out(buffer.get(..self.filled).unwrap_or(&[]));
        self.buffer = buffer;
        self.filled = 0;
    }

    fn write_out(&mut self, bytes: &[u8]) {
        if self.failure.is_none() {
            self.failure = self.out.write_all(bytes).err();
            self.flushed = self.flushed.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
    }
}

/// A key with its value in one call.
impl<W: Write> JsonWriter<W> {
    /// A key with a string.
    pub fn entry_str(&mut self, key: &str, value: &str) {
        self.key(key);
        self.string(value);
    }

    /// A key with an unsigned integer.
    pub fn entry_u64(&mut self, key: &str, value: u64) {
        self.key(key);
        self.u64(value);
    }

    /// A key with `true` or `false`.
    pub fn entry_bool(&mut self, key: &str, value: bool) {
        self.key(key);
        self.bool(value);
    }

    /// A key with a time in nanoseconds, printed as milliseconds; `null` without one.
    pub fn entry_millis_ns(&mut self, key: &str, ns: Option<i64>) {
        self.key(key);
        match ns {
            Some(ns) => self.millis_ns(ns),
            None => self.null(),
        }
    }
}
