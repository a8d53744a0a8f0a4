//! The outermost level of a payload: splits a struct into its fields.
//!
//! [`FieldSerializer`] accepts structs only and hands each field to a [`FieldSink`]: the
//! payload writer, or the collector of keys. So both see the same fields in the same order.

use serde::Serialize;
use serde::ser::{Impossible, SerializeStruct, Serializer};

use super::PayloadError;

const NO_STRUCT: PayloadError = PayloadError::Unsupported("anything but the fields of one struct");

/// Receives the fields of a payload in order.
pub(super) trait FieldSink {
    /// A field with its value.
    fn field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), PayloadError>;

    /// A field that `skip_serializing_if` leaves out.
    fn skipped(&mut self, key: &'static str) -> Result<(), PayloadError>;
}

/// Collects the keys of a payload.
#[derive(Debug, Default)]
pub(super) struct KeyCollector(pub(super) Vec<&'static str>);

impl FieldSink for KeyCollector {
    fn field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        _: &T,
    ) -> Result<(), PayloadError> {
        self.skipped(key)
    }

    fn skipped(&mut self, key: &'static str) -> Result<(), PayloadError> {
        self.0.push(key);
        Ok(())
    }
}

/// Splits a struct into its fields; see the [module](self).
#[derive(Debug)]
pub(super) struct FieldSerializer<'s, S>(pub(super) &'s mut S);

impl<S: FieldSink> SerializeStruct for FieldSerializer<'_, S> {
    type Ok = ();
    type Error = PayloadError;

    #[inline]
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), PayloadError> {
        self.0.field(key, value)
    }

    #[inline]
    fn skip_field(&mut self, key: &'static str) -> Result<(), PayloadError> {
        self.0.skipped(key)
    }

    #[inline]
    fn end(self) -> Result<(), PayloadError> {
        Ok(())
    }
}

macro_rules! refuse_scalars {
    ($($method:ident($ty:ty))+) => {
        $(fn $method(self, _: $ty) -> Result<(), PayloadError> {
            Err(NO_STRUCT)
        })+
    };
}

impl<'s, S: FieldSink> Serializer for FieldSerializer<'s, S> {
    type Ok = ();
    type Error = PayloadError;
    type SerializeSeq = Impossible<(), PayloadError>;
    type SerializeTuple = Impossible<(), PayloadError>;
    type SerializeTupleStruct = Impossible<(), PayloadError>;
    type SerializeTupleVariant = Impossible<(), PayloadError>;
    type SerializeMap = Impossible<(), PayloadError>;
    type SerializeStruct = FieldSerializer<'s, S>;
    type SerializeStructVariant = Impossible<(), PayloadError>;

    #[inline]
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, PayloadError> {
        Ok(self)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), PayloadError> {
        Ok(())
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), PayloadError> {
        value.serialize(self)
    }

    refuse_scalars! {
        serialize_bool(bool)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64) serialize_i128(i128)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_u128(u128)
        serialize_f32(f32) serialize_f64(f64)
        serialize_char(char) serialize_str(&str) serialize_bytes(&[u8])
    }

    fn serialize_none(self) -> Result<(), PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<(), PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_unit(self) -> Result<(), PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
    ) -> Result<(), PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<(), PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, PayloadError> {
        Err(NO_STRUCT)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, PayloadError> {
        Err(PayloadError::Unsupported("a map or a flattened struct"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, PayloadError> {
        Err(NO_STRUCT)
    }

    fn collect_str<T: std::fmt::Display + ?Sized>(self, _: &T) -> Result<(), PayloadError> {
        Err(NO_STRUCT)
    }
}
