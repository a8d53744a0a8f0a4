//! Writes the fields of a payload whose type is made at run time, one after the other.
//!
//! Used through `marker::runtime_site` by code that receives values and not a struct. The caller
//! writes one value per field of the type, in the order of its keys. Invariants: texts are bounded
//! by the caller, formatted once and written where they stay; nothing is allocated.

use std::fmt;

use super::write::PayloadWriter;
use super::{PayloadError, Tag};

/// What a text that is cut off ends with.
const ELLIPSIS: &str = "…";
/// The length of a text that takes one byte, in bincode.
const MAX_SHORT: usize = 250;
/// The byte before a length of two bytes, in bincode.
const TWO_BYTES: u8 = 251;
/// The bytes before a text: tag, and a length of at most two bytes with the byte before it.
const TEXT_FRONT: usize = 4;
/// The longest text.
const MAX_TEXT: usize = u16::MAX as usize;

/// The destination of the values of one payload.
#[derive(Debug)]
pub struct FieldWriter<'a>(PayloadWriter<'a>);

impl<'a> FieldWriter<'a> {
    pub(crate) const fn new(room: &'a mut [u8]) -> Self {
        Self(PayloadWriter::new(room))
    }

    pub(crate) const fn written(&self) -> usize {
        self.0.written()
    }

    /// Writes that a field has no value.
    ///
    /// # Errors
    /// [`PayloadError::NoRoom`], as for all other values.
    #[inline]
    pub fn none(&mut self) -> Result<(), PayloadError> {
        self.0.put(Tag::None, ())
    }

    /// Writes a boolean.
    ///
    /// # Errors
    /// [`PayloadError::NoRoom`].
    #[inline]
    pub fn bool(&mut self, value: bool) -> Result<(), PayloadError> {
        self.0.put(Tag::Bool, value)
    }

    /// Writes an unsigned integer.
    ///
    /// # Errors
    /// [`PayloadError::NoRoom`].
    #[inline]
    pub fn u64(&mut self, value: u64) -> Result<(), PayloadError> {
        self.0.put(Tag::U64, value)
    }

    /// Writes a signed integer.
    ///
    /// # Errors
    /// [`PayloadError::NoRoom`].
    #[inline]
    pub fn i64(&mut self, value: i64) -> Result<(), PayloadError> {
        self.0.put(Tag::I64, value)
    }

    /// Writes a floating-point number.
    ///
    /// # Errors
    /// [`PayloadError::NoRoom`].
    #[inline]
    pub fn f64(&mut self, value: f64) -> Result<(), PayloadError> {
        self.0.put(Tag::F64, value)
    }

    /// Writes a text. Of a text with more than `most` bytes, it writes the beginning and "…".
    ///
    /// # Errors
    /// [`PayloadError::NoRoom`].
    #[inline]
    pub fn text(&mut self, text: &str, most: usize) -> Result<(), PayloadError> {
        if text.len() <= most {
            self.0.put(Tag::Str, text)
        } else {
            self.display(format_args!("{text}"), most)
        }
    }

    /// Formats a text of at most `most` bytes, and "…" if more was to come. Formatting stops there.
    /// If formatting fails, the text ends where it failed.
    ///
    /// # Errors
    /// [`PayloadError::NoRoom`].
    pub fn display(&mut self, text: fmt::Arguments<'_>, most: usize) -> Result<(), PayloadError> {
        let rest = self.0.take_rest();
        let (front, room) = rest
            .split_at_mut_checked(TEXT_FRONT)
            .ok_or(PayloadError::NoRoom)?;
        let mut text_room = BoundedText {
            room,
            len: 0,
            most: most.min(MAX_TEXT - ELLIPSIS.len()),
            end: End::Open,
        };
        let _ = fmt::write(&mut text_room, text);
        let len = text_room.finish()?;
        let is_short = fill_front(front, len);
        let text_end = TEXT_FRONT + len;
        let used = if is_short {
            // The length takes one byte and not three.
            rest.copy_within(TEXT_FRONT..text_end, TEXT_FRONT - 2);
            text_end - 2
        } else {
            text_end
        };
        self.0.put_back(rest, used);
        Ok(())
    }
}

/// Writes the tag and the length of a text; true if the length takes only one byte.
fn fill_front(front: &mut [u8], len: usize) -> bool {
    let [low, high, ..] = len.to_le_bytes();
    if let [tag, first, second, third] = front {
        (*tag, *second, *third) = (Tag::Str as u8, low, high);
        *first = if len <= MAX_SHORT { low } else { TWO_BYTES };
    }
    len <= MAX_SHORT
}

/// Why a text ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It may go on.
    Open,
    /// It has reached its bound.
    Cut,
    /// It does not fit into the room.
    NoRoom,
}

/// A text that is written up to a bound.
struct BoundedText<'a> {
    room: &'a mut [u8],
    len: usize,
    most: usize,
    end: End,
}

impl BoundedText<'_> {
    fn push(&mut self, text: &str) -> fmt::Result {
        let after = self.len + text.len();
        let Some(place) = self.room.get_mut(self.len..after) else {
            self.end = End::NoRoom;
            return Err(fmt::Error);
        };
        place.copy_from_slice(text.as_bytes());
        self.len = after;
        Ok(())
    }

    /// Marks a text that was cut; returns the number of bytes.
    fn finish(mut self) -> Result<usize, PayloadError> {
        if self.end == End::Cut {
            let _ = self.push(ELLIPSIS);
        }
        if self.end == End::NoRoom {
            return Err(PayloadError::NoRoom);
        }
        Ok(self.len)
    }
}

impl fmt::Write for BoundedText<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if self.end != End::Open {
            return Err(fmt::Error);
        }
        let left = self.most.saturating_sub(self.len);
        if part.len() <= left {
            return self.push(part);
        }
        let fitting = part.get(..part.floor_char_boundary(left)).unwrap_or("");
        self.push(fitting)?;
        self.end = End::Cut;
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::marker::payload::{FieldValue, PayloadReader, encode};

    fn written(
        room: &mut [u8],
        write: impl FnOnce(&mut FieldWriter<'_>) -> Result<(), PayloadError>,
    ) -> Result<&[u8], PayloadError> {
        let mut writer = FieldWriter::new(room);
        write(&mut writer)?;
        let len = writer.written();
        Ok(&room[..len])
    }

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut room = [0; 64];
        let bytes = written(&mut room, |out| {
            out.u64(300)?;
            out.none()?;
            out.i64(-5)?;
            out.f64(0.5)?;
            out.bool(true)?;
            out.text("text", 10)?;
            out.display(format_args!("{:?}", Some(1)), 10)
        });
        let read: Vec<_> = PayloadReader::new(bytes.unwrap())
            .map(Result::unwrap)
            .collect();
        let expected = [
            FieldValue::U64(300),
            FieldValue::None,
            FieldValue::I64(-5),
            FieldValue::F64(0.5),
            FieldValue::Bool(true),
            FieldValue::Str("text"),
            FieldValue::Str("Some(1)"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn a_text_is_formatted_once() {
        struct Counted(std::cell::Cell<u32>);
        impl fmt::Display for Counted {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.set(self.0.get() + 1);
                f.write_str("text")
            }
        }
        let counted = Counted(std::cell::Cell::new(0));
        let mut room = [0; 64];
        written(&mut room, |out| out.display(format_args!("{counted}"), 9)).unwrap();
        assert_eq!(counted.0.get(), 1);
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_formatting_stops() {
        let mut room = [0; 64];
        let endless = fmt::from_fn(|f| {
            loop {
                f.write_str("äb")?;
            }
        });
        let bytes = written(&mut room, |out| out.display(format_args!("{endless}"), 4)).unwrap();
        let read: Vec<_> = PayloadReader::new(bytes).map(Result::unwrap).collect();
        assert_eq!(read, [FieldValue::Str("äb…")], "ä has two bytes");
    }

    proptest! {
        #[test]
        fn a_formatted_text_is_encoded_like_any_other_text(text in ".{0,300}", room in 0_usize..900) {
            let mut room = vec![0; room];
            let len = room.len();
            let written = written(&mut room, |out| out.display(format_args!("{text}"), 2000));
            #[derive(serde::Serialize)]
            struct Only<'a> {
                text: &'a str,
            }
            let mut other = vec![0; 2000];
            let expected = encode(&Only { text: &text }, &mut other).unwrap();
            match written {
                Ok(bytes) => prop_assert_eq!(bytes, &other[..expected]),
                Err(error) => {
                    prop_assert_eq!(error, PayloadError::NoRoom);
                    prop_assert!(len < expected + 2, "{} of {} bytes", len, expected);
                }
            }
        }
    }
}
