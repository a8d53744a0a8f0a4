//! A streaming JSON writer, used by all profile writers.
//!
//! Its whole state is a 64 KiB buffer and one flag, "a comma is due", so it neither recurses nor
//! keeps a stack, and no order of calls can make it panic. Calls do not fail: the writer keeps the
//! first error of the output, discards everything after it, and returns the error from
//! [`JsonWriter::finish`]. Long loops call [`JsonWriter::is_failed`] from time to time.
//!
//! Invariants: strings are valid UTF-8 and fully escaped; numbers are finite (others become
//! `null`). The caller must call an `end` for every `begin`, and write keys only in objects.

use std::io::{self, Write};

pub use self::escape::position_of_escape;
use self::escape::{escaped, first_escape, needs_escape};
use self::number::NumberWriter;

mod escape;
mod number;
#[cfg(test)]
mod tests;

/// Size of the buffer.
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
        // Writing to a vector never fails, and the writer writes only UTF-8.
        Self(
            writer
                .finish()
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .unwrap_or_default(),
        )
    }
}

impl<W: Write> JsonWriter<W> {
    /// A writer at the beginning of a JSON text.
    pub fn new(out: W) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self {
            out,
            buffer,
            filled: 0,
            comma_due: false,
            flushed: 0,
            failure: None,
        }
    }

    /// Whether the output has failed. Nothing more is written to it.
    pub const fn is_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Bytes written so far, the buffered ones included.
    pub fn bytes_written(&self) -> u64 {
        self.flushed
            .saturating_add(u64::try_from(self.filled).unwrap_or(u64::MAX))
    }

    /// Writes the buffered bytes and returns the output.
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
        self.number(false, |out| out.whole(value));
    }

    /// An unsigned integer, or `null` without one.
    #[inline]
    pub fn u64_or_null(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.u64(value),
            None => self.null(),
        }
    }

    /// A signed integer, exactly.
    #[inline]
    pub fn i64(&mut self, value: i64) {
        self.number(value < 0, |out| out.whole(value.unsigned_abs()));
    }

    /// A floating-point number in the shortest form that reads back as the same number;
    /// `null` for infinities and NaN.
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
        self.number(ns < 0, |out| out.millis(ns.unsigned_abs()));
    }

    /// One value that is JSON already. The caller ensures that it is well-formed.
    #[inline]
    pub fn raw(&mut self, json: &str) {
        self.separate();
        self.put(json.as_bytes());
    }

    /// Continues the value that [`JsonWriter::raw`] began, if it is too long for memory.
    pub fn raw_more(&mut self, json: &[u8]) {
        self.put(json);
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

    /// Writes a comma if one is due. After the next value, another one is due.
    #[inline]
    fn separate(&mut self) {
        if self.comma_due {
            self.push(b',');
        }
        self.comma_due = true;
    }

    #[inline]
    fn number(&mut self, negative: bool, write: impl FnOnce(&mut NumberWriter<'_>)) {
        if BUFFER_BYTES.saturating_sub(self.filled) < number::ROOM {
            self.flush_buffer();
        }
        if let Some(room) = self
            .buffer
            .get_mut(self.filled..)
            .and_then(|rest| rest.first_chunk_mut())
        {
            let mut out = NumberWriter::new(room);
            out.character(b',', self.comma_due);
            out.character(b'-', negative);
            write(&mut out);
            self.filled = self.filled.saturating_add(out.len());
        }
        self.comma_due = true;
    }

    /// A text with its quotation marks, copied as one piece if it needs no escapes.
    #[inline]
    fn quoted(&mut self, text: &str) {
        let text = text.as_bytes();
        if let Some(at) = first_escape(text) {
            return self.put_escaped(text, at);
        }
        let end = self.filled.saturating_add(text.len()).saturating_add(2);
        let room = self.buffer.get_mut(self.filled..end);
        if let Some([open, inside @ .., close]) = room {
            (*open, *close) = (b'"', b'"');
            copy_short(inside, text);
            self.filled = end;
        } else {
            self.quoted_beyond(text);
        }
    }

    #[cold]
    fn quoted_beyond(&mut self, text: &[u8]) {
        self.push(b'"');
        self.put(text);
        self.push(b'"');
    }

    #[cold]
    fn put_escaped(&mut self, text: &[u8], first: usize) {
        self.push(b'"');
        let mut rest = text;
        let mut next = Some(first);
        while let Some((plain, [byte, after @ ..])) = next.and_then(|at| rest.split_at_checked(at))
        {
            self.put(plain);
            let (escape, length) = escaped(*byte);
            self.put(escape.get(..length).unwrap_or(&escape));
            rest = after;
            next = rest.iter().position(|byte| needs_escape(*byte));
        }
        self.put(rest);
        self.push(b'"');
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
                copy_short(room, bytes);
                self.filled = end;
            }
            None => self.put_beyond(bytes),
        }
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
            self.flushed = self
                .flushed
                .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
    }
}

/// Many short texts in memory, with one buffer.
impl JsonWriter<Vec<u8>> {
    /// The text written since the last call. The next value begins a new JSON text.
    pub fn take_text(&mut self) -> String {
        self.flush_buffer();
        self.comma_due = false;
        // The writer writes only UTF-8.
        String::from_utf8(std::mem::take(&mut self.out)).unwrap_or_default()
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

    /// A key with an array; `write` writes each item.
    pub fn entry_list<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut write: impl FnMut(T, &mut Self),
    ) {
        self.key(key);
        self.begin_array();
        items.into_iter().for_each(|item| write(item, self));
        self.end_array();
    }

    /// A key with an object, whose entries `write` writes.
    pub fn entry_object(&mut self, key: &str, write: impl FnOnce(&mut Self)) {
        self.key(key);
        self.begin_object();
        write(self);
        self.end_object();
    }

    /// A key with a string, if there is one.
    pub fn entry_str_if(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.entry_str(key, value);
        }
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

/// Copies between slices of equal length. Slices of 4 to 32 bytes (most texts of a profile) are
/// copied as words that may overlap at the end, without a call.
#[inline]
fn copy_short(to: &mut [u8], from: &[u8]) {
    match from.len() {
        8..=32 => copy_words::<8>(to, from),
        4..=7 => copy_words::<4>(to, from),
        _ => to.copy_from_slice(from),
    }
}

#[inline]
fn copy_words<const N: usize>(to: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk::<N>()) {
        *to = *from;
    }
    to.as_chunks_mut::<N>()
        .0
        .iter_mut()
        .zip(from.as_chunks::<N>().0)
        .for_each(|(to, from)| *to = *from);
}
