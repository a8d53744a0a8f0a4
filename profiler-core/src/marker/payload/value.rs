//! The value of one field, as serde presents it.
//!
//! Used by the payload writer for each field and, for lists, for each item. Every scalar becomes
//! one of the seven kinds of value in [`super`].

use std::fmt;

use serde::Serialize;
use serde::ser::{Impossible, SerializeSeq, SerializeTuple, SerializeTupleStruct, Serializer};

use super::write::PayloadWriter;
use super::{MAX_LIST_DEPTH, PayloadError, Tag};

const WRONG_COUNT: PayloadError =
    PayloadError::Unsupported("a sequence that differs from its announced length");
const VARIANT: PayloadError = PayloadError::Unsupported("a variant with data");

type Refused = Impossible<(), PayloadError>;

/// Writes one value.
#[derive(Debug)]
pub(super) struct ValueSerializer<'w, 'a> {
    writer: &'w mut PayloadWriter<'a>,
    /// The number of lists around this value.
    depth: u8,
}

impl<'w, 'a> ValueSerializer<'w, 'a> {
    #[inline]
    pub(super) const fn new(writer: &'w mut PayloadWriter<'a>) -> Self {
        Self { writer, depth: 0 }
    }

    fn list(self, count: usize) -> Result<ListSerializer<'w, 'a>, PayloadError> {
        if self.depth >= MAX_LIST_DEPTH {
            return Err(PayloadError::Unsupported("a list of lists of lists"));
        }
        self.writer.put(Tag::List, count as u64)?;
        Ok(ListSerializer {
            writer: self.writer,
            depth: self.depth.saturating_add(1),
            left: count,
        })
    }
}

/// Writes the items of a list whose length has been written.
#[derive(Debug)]
pub(super) struct ListSerializer<'w, 'a> {
    writer: &'w mut PayloadWriter<'a>,
    depth: u8,
    /// The number of items still to be written.
    left: usize,
}

impl ListSerializer<'_, '_> {
    #[inline]
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
        self.left = self.left.checked_sub(1).ok_or(WRONG_COUNT)?;
        value.serialize(ValueSerializer {
            writer: self.writer,
            depth: self.depth,
        })
    }

    const fn finish(&self) -> Result<(), PayloadError> {
        if self.left == 0 {
            Ok(())
        } else {
            Err(WRONG_COUNT)
        }
    }
}

macro_rules! list_items {
    ($($trait:ident::$method:ident)+) => {
        $(impl $trait for ListSerializer<'_, '_> {
            type Ok = ();
            type Error = PayloadError;

            #[inline]
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), PayloadError> {
                self.item(value)
            }

            fn end(self) -> Result<(), PayloadError> {
                self.finish()
            }
        })+
    };
}

list_items! {
    SerializeSeq::serialize_element
    SerializeTuple::serialize_element
    SerializeTupleStruct::serialize_field
}

macro_rules! scalars {
    ($($method:ident($from:ty) => $tag:ident($to:ty))+) => {
        $(#[inline]
        fn $method(self, value: $from) -> Result<(), PayloadError> {
            self.writer.put(Tag::$tag, <$to>::from(value))
        })+
    };
}

impl<'w, 'a> Serializer for ValueSerializer<'w, 'a> {
    type Ok = ();
    type Error = PayloadError;
    type SerializeSeq = ListSerializer<'w, 'a>;
    type SerializeTuple = ListSerializer<'w, 'a>;
    type SerializeTupleStruct = ListSerializer<'w, 'a>;
    type SerializeTupleVariant = Refused;
    type SerializeMap = Refused;
    type SerializeStruct = Refused;
    type SerializeStructVariant = Refused;

    scalars! {
        serialize_bool(bool) => Bool(bool)
        serialize_i8(i8) => I64(i64)
        serialize_i16(i16) => I64(i64)
        serialize_i32(i32) => I64(i64)
        serialize_i64(i64) => I64(i64)
        serialize_u8(u8) => U64(u64)
        serialize_u16(u16) => U64(u64)
        serialize_u32(u32) => U64(u64)
        serialize_u64(u64) => U64(u64)
        serialize_f32(f32) => F64(f64)
        serialize_f64(f64) => F64(f64)
    }

    fn serialize_i128(self, _: i128) -> Result<(), PayloadError> {
        Err(PayloadError::Unsupported("a 128-bit integer"))
    }

    fn serialize_u128(self, _: u128) -> Result<(), PayloadError> {
        Err(PayloadError::Unsupported("a 128-bit integer"))
    }

    fn serialize_char(self, value: char) -> Result<(), PayloadError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    #[inline]
    fn serialize_str(self, value: &str) -> Result<(), PayloadError> {
        self.writer.put(Tag::Str, value)
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<(), PayloadError> {
        Err(PayloadError::Unsupported("bytes"))
    }

    #[inline]
    fn serialize_none(self) -> Result<(), PayloadError> {
        self.writer.put(Tag::None, ())
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), PayloadError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), PayloadError> {
        self.serialize_none()
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), PayloadError> {
        self.serialize_none()
    }

    #[inline]
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<(), PayloadError> {
        self.serialize_str(variant)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), PayloadError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), PayloadError> {
        Err(VARIANT)
    }

    fn serialize_seq(self, count: Option<usize>) -> Result<Self::SerializeSeq, PayloadError> {
        self.list(count.ok_or(PayloadError::Unsupported("a sequence of unknown length"))?)
    }

    fn serialize_tuple(self, count: usize) -> Result<Self::SerializeTuple, PayloadError> {
        self.list(count)
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        count: usize,
    ) -> Result<Self::SerializeTupleStruct, PayloadError> {
        self.list(count)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Refused, PayloadError> {
        Err(VARIANT)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Refused, PayloadError> {
        Err(PayloadError::Unsupported("a map"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Refused, PayloadError> {
        Err(PayloadError::Unsupported("a struct within the struct"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Refused, PayloadError> {
        Err(VARIANT)
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), PayloadError> {
        self.writer.put_display(value)
    }
}
