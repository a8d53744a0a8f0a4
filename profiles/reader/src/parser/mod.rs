//! Reads a stream of JSON as serde's data model.
//!
//! Used by [`mod@super::walk`]. serde_json reads a stream byte by byte; this parser reads the text
//! in its buffer as a slice, which is several times as fast. It passes unusual numbers and strings
//! with escapes to serde_json. Invariants: a value that is skipped needs at most a megabyte of
//! memory, and a value that is read needs as much as its longest string; nesting is limited; the
//! parser accepts and refuses the same texts as serde_json, but also refuses numbers of more than
//! 64 KiB and skipped values with more than a million levels.
//!
//! Enums are not supported.

mod error;
mod extents;
mod number;
mod skip;
#[cfg(test)]
mod tests;
mod window;

use std::io::{self, Read};

use profiler_json::position_of_escape;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Value;

pub use self::error::ParseError;
pub(super) use self::extents::Extents;
use self::number::Number;
use self::skip::Skip;
use self::window::Window;
pub(crate) use self::window::{Source, Stream};

/// The limit on the nesting of values that are read, as in serde_json.
const DEEPEST: u32 = 127;

/// The name with which [`list_or_text`] asks for text.
const LIST_OR_TEXT: &str = "a list, or the text of a value";

type Parsed<T> = Result<T, ParseError>;

/// Reads a text as a tree. For tests and fuzz targets, which compare the tree with that of
/// serde_json.
///
/// # Errors
/// When the text cannot be read, or is not JSON.
pub fn read_tree(text: impl Read) -> io::Result<Value> {
    whole(text).map(|(value, _)| value)
}

/// Passes over a text. Returns its length in bytes. For tests and fuzz targets.
///
/// # Errors
/// When the text cannot be read, or is not JSON.
pub fn pass_over(text: impl Read) -> io::Result<u64> {
    whole::<IgnoredAny>(text).map(|(_, length)| length)
}

/// Reads a text to its end. Returns its value and its length in bytes.
fn whole<T: for<'de> Deserialize<'de>>(text: impl Read) -> io::Result<(T, u64)> {
    let known = Extents::default();
    let mut parser = Parser::new(Stream(text), &known);
    let value = T::deserialize(&mut parser)?;
    let (length, _) = parser.end()?;
    Ok((value, length))
}

/// Reads JSON from a stream. See the [module](self).
pub(super) struct Parser<'e> {
    window: Window<'e>,
    /// Open objects and lists.
    depth: u32,
    /// The value that is being skipped, reused.
    skipped: Skip,
    /// The long values that an earlier pass has skipped.
    known: &'e Extents,
    /// The long values that this pass has skipped.
    noted: Extents,
}

impl<'e> Parser<'e> {
    /// Reads a text. `known` is the result of an earlier pass through the same text, or empty.
    pub(super) fn new(input: impl Source + 'e, known: &'e Extents) -> Self {
        Self {
            window: Window::new(input),
            depth: 0,
            skipped: Skip::new(),
            known,
            noted: Extents::default(),
        }
    }

    /// Checks that only white space is left. Returns the length of the text, and the long values
    /// that were skipped.
    pub(super) fn end(mut self) -> Parsed<(u64, Extents)> {
        match self.token()? {
            None => Ok((self.window.at(), self.noted)),
            Some(_) => self.wrong("the end of the text"),
        }
    }

    /// Adds the present position to an error that has none.
    pub(crate) fn placed(&self, error: ParseError) -> ParseError {
        error.before(self.window.at())
    }

    /// The next byte that is not white space.
    #[inline]
    fn token(&mut self) -> Parsed<Option<u8>> {
        loop {
            match self.window.first() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.window.advance(1),
                None if self.window.more()? => {}
                next => return Ok(next),
            }
        }
    }

    #[cold]
    fn wrong<T>(&self, expected: &'static str) -> Parsed<T> {
        let at = self.window.at();
        if self.window.first().is_none() {
            return Err(ParseError::Cut { at });
        }
        Err(ParseError::Syntax { at, expected })
    }

    #[inline]
    fn number(&mut self) -> Parsed<Number> {
        match number::short(self.window.rest()) {
            Some((number, length)) => {
                self.window.advance(length);
                Ok(number)
            }
            None => self.long_number(),
        }
    }

    #[cold]
    fn long_number(&mut self) -> Parsed<Number> {
        let length = loop {
            match number::length(self.window.rest(), self.window.is_ended()) {
                Ok(Some(length)) => break length,
                Ok(None) => _ = self.window.more()?,
                Err(expected) => return self.wrong(expected),
            }
        };
        let text = self.window.rest().get(..length).unwrap_or_default();
        let Some(number) = number::long(text) else {
            return self.wrong("a number within range");
        };
        self.window.advance(length);
        Ok(number)
    }

    /// Reads a string, from its opening quotation mark on.
    #[inline]
    fn text<T>(&mut self, read: impl FnOnce(&str) -> Parsed<T>) -> Parsed<T> {
        let plain = self.window.rest().get(1..).unwrap_or_default();
        let end = position_of_escape(plain);
        match end.filter(|end| plain.get(*end) == Some(&b'"')) {
            Some(end) => {
                let at = self.window.at();
                let quoted = self.window.take(end + 2);
                let text = quoted.get(1..end + 1).unwrap_or_default();
                match std::str::from_utf8(text) {
                    Ok(text) => read(text),
                    Err(_) => Err(ParseError::Syntax {
                        at,
                        expected: "a string in UTF-8",
                    }),
                }
            }
            None => self.long_text(read),
        }
    }

    /// Reads a string that is not complete in the buffer, or that has escapes.
    #[cold]
    fn long_text<T>(&mut self, read: impl FnOnce(&str) -> Parsed<T>) -> Parsed<T> {
        let at = self.window.at();
        let text: Result<String, _> = serde_json::from_slice(self.raw()?);
        match text {
            Ok(text) => read(&text),
            Err(error) => Err(ParseError::Form {
                why: error.to_string(),
                at: Some(at),
            }),
        }
    }

    fn word(&mut self, first: u8) -> Parsed<()> {
        match skip::word(first) {
            Some(_) => self.skip(),
            None => self.wrong("a value"),
        }
    }

    /// Passes over a value.
    fn skip(&mut self) -> Parsed<()> {
        if let Some(b'[' | b'{') = self.token()?
            && let Some(end) = self.known.end(self.window.at())
        {
            return Ok(self.window.jump(end)?);
        }
        self.scan(false).map(drop)
    }

    /// Reads the text of a value.
    fn raw(&mut self) -> Parsed<&[u8]> {
        self.token()?;
        let length = self.scan(true)?;
        Ok(self.window.take(length))
    }

    /// Finds the end of a value. Returns its length if it is kept unread.
    fn scan(&mut self, is_kept: bool) -> Parsed<usize> {
        self.skipped.begin();
        let mut kept = 0;
        loop {
            let rest = self.window.rest().get(kept..).unwrap_or_default();
            let at = self.window.at() + kept as u64;
            let is_ended = self.window.is_ended();
            let skipped = self.skipped.run(rest, is_ended, at, &mut self.noted);
            let (Ok(bytes) | Err((bytes, _))) = skipped;
            if is_kept {
                kept += bytes;
            } else {
                self.window.advance(bytes);
            }
            if let Err((_, expected)) = skipped {
                self.window.advance(kept);
                return self.wrong(expected);
            }
            if self.skipped.is_complete() {
                return Ok(kept);
            }
            // A number may be complete at the end of the text.
            if is_ended {
                let at = self.window.at() + self.window.rest().len() as u64;
                return Err(ParseError::Cut { at });
            }
            self.window.more()?;
        }
    }

    /// Enters an object or a list, reads it, and leaves it.
    #[inline]
    fn within<T>(&mut self, close: u8, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEEPEST {
            return self.wrong("less nesting");
        }
        self.window.advance(1);
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        if self.token()? != Some(close) {
            return self.wrong("the end of an object or a list");
        }
        self.window.advance(1);
        Ok(value)
    }

    /// Goes to the next item or member; false at the closing bracket.
    #[inline]
    fn next(&mut self, close: u8, is_first: &mut bool) -> Parsed<bool> {
        match self.window.rest() {
            [b',', after, ..] if !*is_first && *after > b' ' && *after != close => {
                self.window.advance(1);
                return Ok(true);
            }
            _ => {}
        }
        match self.token()? {
            Some(byte) if byte == close => Ok(false),
            Some(_) if std::mem::take(is_first) => Ok(true),
            Some(b',') => {
                self.window.advance(1);
                match self.token()? {
                    Some(byte) if byte == close => self.wrong("a value"),
                    _ => Ok(true),
                }
            }
            _ => self.wrong("a comma or a closing bracket"),
        }
    }
}

impl<'de> Deserializer<'de> for &mut Parser<'_> {
    type Error = ParseError;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Parsed<V::Value> {
        match self.token()? {
            Some(b'-' | b'0'..=b'9') => match self.number()? {
                Number::Positive(number) => visitor.visit_u64(number),
                Number::Negative(number) => visitor.visit_i64(number),
                Number::Float(number) => visitor.visit_f64(number),
            },
            Some(b'"') => self.text(|text| visitor.visit_str(text)),
            Some(b'[') => self.within(b']', |parser| {
                visitor.visit_seq(Within {
                    parser,
                    is_first: true,
                })
            }),
            Some(b'{') => self.within(b'}', |parser| {
                visitor.visit_map(Within {
                    parser,
                    is_first: true,
                })
            }),
            Some(first @ b'n') => {
                self.word(first)?;
                visitor.visit_unit()
            }
            Some(first @ (b't' | b'f')) => {
                self.word(first)?;
                visitor.visit_bool(first == b't')
            }
            _ => self.wrong("a value"),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Parsed<V::Value> {
        match self.token()? {
            Some(first @ b'n') => {
                self.word(first)?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Parsed<V::Value> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Parsed<V::Value> {
        if name != LIST_OR_TEXT {
            return visitor.visit_newtype_struct(self);
        }
        if self.token()? == Some(b'[') {
            return self.deserialize_any(visitor);
        }
        let at = self.window.at();
        match std::str::from_utf8(self.raw()?) {
            Ok(text) => visitor.visit_str(text),
            Err(_) => Err(ParseError::Syntax {
                at,
                expected: "a value in UTF-8",
            }),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier
    }
}

/// The items of a list, or the members of an object.
struct Within<'p, 'e> {
    parser: &'p mut Parser<'e>,
    is_first: bool,
}

impl<'de> SeqAccess<'de> for Within<'_, '_> {
    type Error = ParseError;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Parsed<Option<T::Value>> {
        if !self.parser.next(b']', &mut self.is_first)? {
            return Ok(None);
        }
        seed.deserialize(&mut *self.parser).map(Some)
    }
}

impl<'de> MapAccess<'de> for Within<'_, '_> {
    type Error = ParseError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Parsed<Option<K::Value>> {
        if !self.parser.next(b'}', &mut self.is_first)? {
            return Ok(None);
        }
        if self.parser.token()? != Some(b'"') {
            return self.parser.wrong("a key");
        }
        seed.deserialize(&mut *self.parser).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Parsed<V::Value> {
        if self.parser.token()? != Some(b':') {
            return self.parser.wrong("a colon");
        }
        self.parser.window.advance(1);
        seed.deserialize(&mut *self.parser)
    }
}

/// Passes the text of a value to `visit_str` of a visitor. Only [`Parser`] provides it. A list is
/// not text: it is passed to `visit_seq`.
pub fn list_or_text<'de, D: Deserializer<'de>, V: Visitor<'de>>(
    from: D,
    visitor: V,
) -> Result<V::Value, D::Error> {
    from.deserialize_newtype_struct(LIST_OR_TEXT, visitor)
}
