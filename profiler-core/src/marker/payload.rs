//! Encodes and decodes the payload of a marker.
//!
//! A payload is a struct of plain fields that implements [`serde::Serialize`]. The recording API
//! encodes it with [`encode`] directly into the chunk. A profile writer decodes it with
//! [`PayloadReader`], and needs only the field keys that [`field_keys`] collected when the type was
//! registered.
//!
//! ```text
//! payload := value*                      one per field, in the order of the struct
//! value   := tag body                    tag: one byte, body: bincode
//!            0 none      (nothing)       also: unit, skipped field
//!            1 bool      u8
//!            2 u64       varint
//!            3 i64       zigzag varint
//!            4 f64       8 bytes, little endian
//!            5 text      varint length, UTF-8
//!            6 list      varint count, value*      at most a list of lists
//! ```
//!
//! Fields may be booleans, integers, floats, characters, texts, unit variants (their name),
//! options, newtypes of these, and sequences or tuples of them, up to a sequence of
//! sequences. Maps (hence `#[serde(flatten)]`), nested structs, variants with data, bytes and
//! 128-bit integers are refused. Encoding allocates nothing, unless the payload's own
//! `Serialize` allocates or fails.

use std::fmt;

use serde::Serialize;

pub use self::field_writer::FieldWriter;
pub use self::read::{FieldValue, PayloadReader};

mod combine;
pub use combine::combined;
mod field_writer;
mod fields;
mod read;
mod scalar;
mod value;
mod write;

/// Maximum depth of nested lists.
const MAX_LIST_DEPTH: u8 = 2;

/// The kind of a value; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Tag {
    None = 0,
    Bool = 1,
    U64 = 2,
    I64 = 3,
    F64 = 4,
    Str = 5,
    List = 6,
}

impl Tag {
    const fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::None,
            1 => Self::Bool,
            2 => Self::U64,
            3 => Self::I64,
            4 => Self::F64,
            5 => Self::Str,
            6 => Self::List,
            _ => return None,
        })
    }
}

/// The reason why a payload could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// The room is too small.
    #[error("no room for the payload")]
    NoRoom,
    /// The payload has a part that no viewer can show.
    #[error("a payload cannot contain {0}")]
    Unsupported(&'static str),
    /// The payload's own serialisation failed.
    #[error("payload failed to serialise: {0}")]
    Custom(Box<str>),
    /// The bytes are not an encoded payload.
    #[error("malformed payload: {0}")]
    Malformed(&'static str),
}

impl serde::ser::Error for PayloadError {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Custom(message.to_string().into_boxed_str())
    }
}

/// Encodes `payload` into `room` and returns the number of bytes written.
///
/// After an error the content of `room` is unspecified.
///
/// # Errors
/// [`PayloadError::NoRoom`], [`PayloadError::Unsupported`], [`PayloadError::Custom`].
#[inline]
pub fn encode<T: Serialize + ?Sized>(payload: &T, room: &mut [u8]) -> Result<usize, PayloadError> {
    let mut writer = write::PayloadWriter::new(room);
    payload.serialize(fields::FieldSerializer(&mut writer))?;
    Ok(writer.written())
}

/// The keys of a payload's fields, in the order of the encoded values.
///
/// The order is the same for every value of a type with derived `Serialize`. Fields with
/// `skip_serializing_if` are included, whether skipped or not.
///
/// # Errors
/// [`PayloadError::Unsupported`] if the payload is not a struct.
pub(crate) fn field_keys<T: Serialize + ?Sized>(
    payload: &T,
) -> Result<Vec<&'static str>, PayloadError> {
    let mut keys = fields::KeyCollector::default();
    payload.serialize(fields::FieldSerializer(&mut keys))?;
    Ok(keys.0)
}

#[cfg(test)]
mod tests;
