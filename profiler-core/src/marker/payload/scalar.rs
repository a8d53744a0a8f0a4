//! The bytes of one scalar value: its tag and its body.
//!
//! Used by [`super::write`]. Every marker with a payload has several scalars, and a general call of
//! the codec takes longer than the bytes that it writes. Invariant: the bytes are those of
//! `codec::encode_into((tag as u8, value))`, as the property tests below show. Bytes behind a value
//! are unspecified: a body of eight bytes is written in one store, also if fewer belong to it.
//!
//! ```text
//! none      tag
//! boolean   tag, 0 or 1
//! integer   tag, 0…250                          signed integers alternate: 0, -1, 1, -2, …
//!           tag, 251, 2 bytes │ tag, 252, 4 bytes │ tag, 253, 8 bytes
//! float     tag, 8 bytes
//! text      tag, its length like an integer, its bytes
//! ```

use super::Tag;

/// The largest integer of one byte; the next three numbers announce 2, 4 and 8 bytes.
const MAX_BYTE: u64 = 250;

/// A value that is written directly.
pub(super) trait Scalar {
    /// Writes tag and body, and returns their length; `None` if they do not fit.
    fn write(self, tag: Tag, room: &mut [u8]) -> Option<usize>;
}

impl Scalar for () {
    #[inline]
    fn write(self, tag: Tag, room: &mut [u8]) -> Option<usize> {
        *room.first_mut()? = tag as u8;
        Some(1)
    }
}

impl Scalar for bool {
    #[inline]
    fn write(self, tag: Tag, room: &mut [u8]) -> Option<usize> {
        *room.first_chunk_mut()? = [tag as u8, u8::from(self)];
        Some(2)
    }
}

impl Scalar for u64 {
    #[inline]
    fn write(self, tag: Tag, room: &mut [u8]) -> Option<usize> {
        let (front, behind) = room.split_first_chunk_mut()?;
        let (first, body) = match self {
            0..=MAX_BYTE => (self.to_le_bytes()[0], 0),
            251..=0xffff => (251, 2),
            0x1_0000..=0xffff_ffff => (252, 4),
            _ => (253, 8),
        };
        *front = [tag as u8, first];
        match behind.first_chunk_mut() {
            Some(whole) => *whole = self.to_le_bytes(),
            None => behind
                .get_mut(..body)?
                .copy_from_slice(self.to_le_bytes().get(..body)?),
        }
        Some(2 + body)
    }
}

impl Scalar for i64 {
    #[inline]
    fn write(self, tag: Tag, room: &mut [u8]) -> Option<usize> {
        let alternating = self.wrapping_shl(1) ^ self.wrapping_shr(63);
        alternating.cast_unsigned().write(tag, room)
    }
}

impl Scalar for f64 {
    #[inline]
    fn write(self, tag: Tag, room: &mut [u8]) -> Option<usize> {
        let (first, behind) = room.split_first_mut()?;
        *first = tag as u8;
        *behind.first_chunk_mut()? = self.to_le_bytes();
        Some(9)
    }
}

impl Scalar for &str {
    #[inline]
    fn write(self, tag: Tag, room: &mut [u8]) -> Option<usize> {
        let start = (self.len() as u64).write(tag, room)?;
        let end = start.checked_add(self.len())?;
        room.get_mut(start..end)?.copy_from_slice(self.as_bytes());
        Some(end)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;

    use super::*;
    use crate::codec;

    /// Compares the bytes with those of the codec, in a large room and in every smaller one.
    fn check<T: Scalar + Serialize + Copy>(value: T) {
        let mut expected = [0; 600];
        let len = codec::encode_into((Tag::U64 as u8, value), &mut expected).unwrap();
        let mut room = [0xaa; 600];
        assert_eq!(value.write(Tag::U64, &mut room), Some(len));
        assert_eq!(room[..len], expected[..len]);
        for size in (0..len).rev().take(12) {
            assert_eq!(value.write(Tag::U64, &mut room[..size]), None, "{size}");
        }
        let mut exact = vec![0xaa; len];
        assert_eq!(value.write(Tag::U64, &mut exact), Some(len));
        assert_eq!(exact[..], expected[..len]);
    }

    #[test]
    fn the_bounds_of_each_length_are_those_of_the_codec() {
        check(());
        for flag in [false, true] {
            check(flag);
        }
        for bound in [
            0,
            250,
            251,
            0xffff,
            0x1_0000,
            0xffff_ffff,
            1 << 32,
            u64::MAX,
        ] {
            check(bound);
            check(bound.cast_signed());
            check(bound.wrapping_neg().cast_signed());
        }
        for len in [0, 1, 250, 251, 500] {
            check(&*"a".repeat(len));
        }
    }

    proptest! {
        #[test]
        fn numbers_and_texts_are_those_of_the_codec(
            unsigned: u64, shift in 0_u32..64, float: f64, text in ".{0,80}"
        ) {
            check(unsigned >> shift);
            check((unsigned >> shift).cast_signed());
            check(float);
            check(&*text);
        }
    }
}
