//! Reads encoded payloads.
//!
//! Used by all code that turns a pool into a profile. The bytes may come from a hostile or dying
//! process: every length is checked against the available bytes, announced sizes are never used to
//! allocate, and no input panics. A list is checked to its end before it is returned, so iterating
//! over it cannot fail.

use super::{MAX_LIST_DEPTH, PayloadError, Tag};
use crate::codec;

/// One decoded value.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldValue<'a> {
    /// Nothing: an option without a value, a unit, a skipped field.
    None,
    /// A boolean.
    Bool(bool),
    /// An unsigned integer of any width.
    U64(u64),
    /// A signed integer of any width.
    I64(i64),
    /// A floating-point number of any width.
    F64(f64),
    /// A text, a character or the name of a variant.
    Str(&'a str),
    /// A sequence or tuple.
    List(ListIter<'a>),
}

/// The values of a payload, in the order of its field keys. Ends after the first error.
#[derive(Clone, Debug)]
pub struct PayloadReader<'a> {
    rest: &'a [u8],
}

impl<'a> PayloadReader<'a> {
    /// Reads an encoded payload.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// The encoded values, up to the first one that is malformed.
    pub fn encoded(mut self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::from_fn(move || {
            let before = self.rest;
            self.next()?.ok()?;
            before.get(..before.len().saturating_sub(self.rest.len()))
        })
    }
}

impl<'a> Iterator for PayloadReader<'a> {
    type Item = Result<FieldValue<'a>, PayloadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let rest = std::mem::take(&mut self.rest);
        Some(value(rest, 0).map(|(value, after)| {
            self.rest = after;
            value
        }))
    }
}

/// The items of a list that was checked to be well-formed.
#[derive(Clone, Debug, PartialEq)]
pub struct ListIter<'a> {
    rest: &'a [u8],
    /// The number of lists around an item.
    depth: u8,
}

impl<'a> Iterator for ListIter<'a> {
    type Item = FieldValue<'a>;

    fn next(&mut self) -> Option<FieldValue<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (value, after) = value(self.rest, self.depth).ok()?;
        self.rest = after;
        Some(value)
    }
}

type Decoded<'a> = Result<(FieldValue<'a>, &'a [u8]), PayloadError>;

/// The value at the beginning of `bytes`, within `depth` lists, and the bytes after it.
fn value(bytes: &[u8], depth: u8) -> Decoded<'_> {
    let (tag, body) = bytes
        .split_first()
        .ok_or(PayloadError::Malformed("a value is missing"))?;
    match Tag::from_u8(*tag).ok_or(PayloadError::Malformed("unknown kind of value"))? {
        Tag::None => Ok((FieldValue::None, body)),
        Tag::Bool => scalar(body, FieldValue::Bool),
        Tag::U64 => scalar(body, FieldValue::U64),
        Tag::I64 => scalar(body, FieldValue::I64),
        Tag::F64 => scalar(body, FieldValue::F64),
        Tag::Str => scalar(body, FieldValue::Str),
        Tag::List => list(body, depth),
    }
}

fn scalar<'a, T: serde::Deserialize<'a>>(
    body: &'a [u8],
    wrap: fn(T) -> FieldValue<'a>,
) -> Decoded<'a> {
    match codec::decode_prefix(body) {
        Ok((value, after)) => Ok((wrap(value), after)),
        Err(_) => Err(PayloadError::Malformed(
            "a value is cut off or has the wrong kind",
        )),
    }
}

/// Checks all items, to find the end of the list. Each item has at least one byte, so a forged
/// count reaches the end of the bytes.
fn list(body: &[u8], depth: u8) -> Decoded<'_> {
    if depth >= MAX_LIST_DEPTH {
        return Err(PayloadError::Malformed("lists are nested too deeply"));
    }
    let depth = depth.saturating_add(1);
    let cut_off = |_| PayloadError::Malformed("a list is cut off");
    let (count, items) = codec::decode_prefix::<u64>(body).map_err(cut_off)?;
    let mut after = items;
    for _ in 0..count {
        (_, after) = value(after, depth)?;
    }
    let length = items.len().saturating_sub(after.len());
    Ok((
        FieldValue::List(ListIter {
            rest: items.get(..length).unwrap_or_default(),
            depth,
        }),
        after,
    ))
}
