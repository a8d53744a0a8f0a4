//! Encodes and decodes values with bincode.
//!
//! Used for definitions and marker payloads in the pool and for control messages
//! (`ipc-protocol`). Invariants: every call carries a size limit, decoding never allocates
//! beyond it, and bytes left over after a value are an error.
//!
//! bincode is pinned to 2.0.1 and is marked unmaintained (RUSTSEC-2025-0141). No other file names
//! it, so changing the codec changes this file and the ABI number only.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The largest encoded value: one control message.
pub const MAX_ENCODED_BYTES: usize = 64 * 1024;

/// The bytes that most definitions need at most. A vector that grows while it is written would
/// allocate where the stack is deepest, and an allocation may be sampled with its stack.
const USUAL_BYTES: usize = 512;

const CONFIG: Configuration<LittleEndian, Varint, Limit<MAX_ENCODED_BYTES>> =
    bincode::config::standard().with_limit::<MAX_ENCODED_BYTES>();

/// The limit is the size of a whole entry. Text is borrowed, so it only bounds the length of one
/// text.
const PREFIX_CONFIG: Configuration<LittleEndian, Varint, Limit<{ 1 << 20 }>> =
    bincode::config::standard().with_limit::<{ 1 << 20 }>();

/// Why a value could not be encoded or decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The encoded form is larger than [`MAX_ENCODED_BYTES`] or than the destination.
    #[error("encoded value is larger than the {limit} bytes allowed")]
    TooLarge {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// The value has a shape that the codec cannot write.
    #[error("value cannot be encoded: {0}")]
    Unencodable(String),
    /// The bytes are not an encoded value of the requested type.
    #[error("bytes do not decode: {0}")]
    Malformed(String),
    /// A value was decoded but bytes were left.
    #[error("{0} bytes left over after the value")]
    TrailingBytes(usize),
}

/// Encodes into a new vector of at most [`MAX_ENCODED_BYTES`].
///
/// # Errors
/// [`CodecError::TooLarge`] and [`CodecError::Unencodable`].
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bincode::serde::encode_into_std_write(value, &mut bytes, CONFIG).map_err(encode_error)?;
    if bytes.len() > MAX_ENCODED_BYTES {
        return Err(CodecError::TooLarge {
            limit: MAX_ENCODED_BYTES,
        });
    }
    Ok(bytes)
}

/// Encodes into `room` and returns the number of bytes written. Allocates nothing on success.
///
/// # Errors
/// [`CodecError::TooLarge`] if `room` is too small, [`CodecError::Unencodable`].
pub fn encode_into<T: Serialize>(value: T, room: &mut [u8]) -> Result<usize, CodecError> {
    let limit = room.len();
    bincode::serde::encode_into_slice(value, room, bincode::config::standard()).map_err(|error| {
        match error {
            bincode::error::EncodeError::UnexpectedEnd => CodecError::TooLarge { limit },
            other => encode_error(other),
        }
    })
}

/// Decodes one value that must fill `bytes` exactly.
///
/// # Errors
/// [`CodecError::TooLarge`] before anything is decoded, [`CodecError::Malformed`],
/// [`CodecError::TrailingBytes`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, CodecError> {
    if bytes.len() > MAX_ENCODED_BYTES {
        return Err(CodecError::TooLarge {
            limit: MAX_ENCODED_BYTES,
        });
    }
    let (value, used) = bincode::serde::decode_from_slice(bytes, CONFIG)
        .map_err(|error| CodecError::Malformed(error.to_string()))?;
    match bytes.len().saturating_sub(used) {
        0 => Ok(value),
        left => Err(CodecError::TrailingBytes(left)),
    }
}

/// Decodes one value at the beginning of `bytes` and returns it with the remaining bytes. Text is
/// borrowed, so a type without owned parts allocates nothing.
///
/// # Errors
/// [`CodecError::Malformed`].
pub(crate) fn decode_prefix<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
) -> Result<(T, &'a [u8]), CodecError> {
    let (value, used) = bincode::serde::borrow_decode_from_slice(bytes, PREFIX_CONFIG)
        .map_err(|error| CodecError::Malformed(error.to_string()))?;
    Ok((value, bytes.get(used..).unwrap_or_default()))
}

fn encode_error(error: bincode::error::EncodeError) -> CodecError {
    CodecError::Unencodable(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_the_round_trip() {
        let value = (7_u32, String::from("name"), vec![Some(1.5_f64), None]);
        let bytes = encode(&value).unwrap();
        assert_eq!(
            decode::<(u32, String, Vec<Option<f64>>)>(&bytes).unwrap(),
            value
        );
    }

    #[test]
    fn left_over_bytes_are_an_error() {
        let mut bytes = encode(&7_u32).unwrap();
        bytes.push(0);
        assert_eq!(decode::<u32>(&bytes), Err(CodecError::TrailingBytes(1)));
    }

    #[test]
    fn a_forged_length_does_not_allocate() {
        // varint 253 = "u64 follows": a string of 2^60 bytes
        let mut bytes = vec![253_u8];
        bytes.extend_from_slice(&(1_u64 << 60).to_le_bytes());
        assert!(matches!(
            decode::<String>(&bytes),
            Err(CodecError::Malformed(_))
        ));
    }

    #[test]
    fn a_buffer_that_is_too_small_is_an_error() {
        let mut room = [0_u8; 3];
        assert_eq!(
            encode_into("four", &mut room),
            Err(CodecError::TooLarge { limit: 3 })
        );
    }

    #[test]
    fn more_than_the_limit_is_refused_in_both_directions() {
        let long = vec![0_u8; MAX_ENCODED_BYTES + 1];
        assert!(encode(&long).is_err());
        assert!(decode::<Vec<u8>>(&long).is_err());
    }
}
