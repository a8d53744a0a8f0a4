//! Writes encoded values into the caller's buffer.
//!
//! Used by [`super::encode`] and by the value serialiser. Invariant: `rest` is the free part of the
//! room. A value that does not fit leaves an error, and the written bytes are then unspecified.

use std::fmt;

use serde::Serialize;

use super::fields::FieldSink;
use super::scalar::Scalar;
use super::value::ValueSerializer;
use super::{PayloadError, Tag};

/// The destination of a payload.
#[derive(Debug)]
pub(super) struct PayloadWriter<'a> {
    rest: &'a mut [u8],
    room: usize,
}

impl<'a> PayloadWriter<'a> {
    pub(super) const fn new(room: &'a mut [u8]) -> Self {
        Self {
            room: room.len(),
            rest: room,
        }
    }

    /// Bytes written so far.
    pub(super) const fn written(&self) -> usize {
        self.room.saturating_sub(self.rest.len())
    }

    /// Takes the free part of the room, for a value that is written into it directly.
    pub(super) fn take_rest(&mut self) -> &'a mut [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Returns what [`Self::take_rest`] has taken, with `used` bytes of it written.
    pub(super) fn put_back(&mut self, rest: &'a mut [u8], used: usize) {
        self.rest = rest.get_mut(used..).unwrap_or_default();
    }

    /// Writes a value: its tag and its body.
    #[inline]
    pub(super) fn put(&mut self, tag: Tag, body: impl Scalar) -> Result<(), PayloadError> {
        let rest = std::mem::take(&mut self.rest);
        let used = body.write(tag, rest).ok_or(PayloadError::NoRoom)?;
        self.rest = rest.get_mut(used..).unwrap_or_default();
        Ok(())
    }

    /// Writes the displayed form of `text` without an allocation: formats it twice, first to find
    /// its length.
    pub(super) fn put_display<T: fmt::Display + ?Sized>(
        &mut self,
        text: &T,
    ) -> Result<(), PayloadError> {
        let mut length = Measure(0);
        write_to(&mut length, text)?;
        self.put(Tag::Str, length.0 as u64)?;
        let mut copy = Copy {
            rest: std::mem::take(&mut self.rest),
            left: length.0,
        };
        write_to(&mut copy, text)?;
        if copy.left > 0 {
            return Err(PayloadError::Unsupported(
                "a text that changes while it is written",
            ));
        }
        self.rest = copy.rest;
        Ok(())
    }
}

impl FieldSink for PayloadWriter<'_> {
    #[inline]
    fn field<T: Serialize + ?Sized>(
        &mut self,
        _: &'static str,
        value: &T,
    ) -> Result<(), PayloadError> {
        value.serialize(ValueSerializer::new(self))
    }

    #[inline]
    fn skipped(&mut self, _: &'static str) -> Result<(), PayloadError> {
        self.put(Tag::None, ())
    }
}

fn write_to<T: fmt::Display + ?Sized>(
    out: &mut impl fmt::Write,
    text: &T,
) -> Result<(), PayloadError> {
    fmt::write(out, format_args!("{text}")).map_err(|fmt::Error| PayloadError::NoRoom)
}

/// Counts the bytes of a text.
struct Measure(usize);

impl fmt::Write for Measure {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.0 = self.0.saturating_add(part.len());
        Ok(())
    }
}

/// Copies a text of known length; excess text does not fit.
struct Copy<'a> {
    rest: &'a mut [u8],
    left: usize,
}

impl fmt::Write for Copy<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.left = self.left.checked_sub(part.len()).ok_or(fmt::Error)?;
        let rest = std::mem::take(&mut self.rest);
        let (room, after) = rest.split_at_mut_checked(part.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(part.as_bytes());
        self.rest = after;
        Ok(())
    }
}
