//! Finds and escapes the bytes that JSON forbids inside a string.
//!
//! Used by [`super::JsonWriter`]. Almost no string in a profile needs escaping, so the whole string
//! is checked first, eight bytes at a time. The parent's reader of profiles searches for the same
//! bytes to find the end of a string.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Whether JSON forbids this byte inside a string.
pub(super) const fn needs_escape(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// The position of the first byte that needs escaping.
#[inline]
pub(super) fn first_escape(bytes: &[u8]) -> Option<usize> {
    if is_clean(bytes) {
        None
    } else {
        bytes.iter().position(|byte| needs_escape(*byte))
    }
}

/// The position of the first byte that cannot be inside a string without an escape: a quotation
/// mark, a backslash or a control character. Reads no further.
#[inline]
pub fn position_of_escape(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks();
    for (place, word) in words.iter().enumerate() {
        let found = escapes(u64::from_le_bytes(*word));
        if found != 0 {
            // The lowest byte that is marked needs an escape, see `escapes`.
            return Some(place * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|byte| needs_escape(*byte))?;
    Some(bytes.len() - rest.len() + at)
}

/// Whether no byte needs escaping. Reads words of eight bytes, or two words of four; the last word
/// may overlap the others.
#[inline]
fn is_clean(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk() {
        let words = bytes.as_chunks().0.iter().chain([last]);
        return words.fold(0, |found, word| found | escapes(u64::from_le_bytes(*word))) == 0;
    }
    if let (Some([a, b, c, d]), Some([e, f, g, h])) = (bytes.first_chunk(), bytes.last_chunk()) {
        return escapes(u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])) == 0;
    }
    !bytes.iter().any(|byte| needs_escape(*byte))
}

/// Not 0 if one of eight bytes needs escaping. A byte is below n (for n up to 128) exactly if
/// subtracting n borrows and its own high bit is clear; a borrow into the next byte can only
/// follow such a byte, so the result for the whole word is correct.
#[inline]
const fn escapes(word: u64) -> u64 {
    let below_space = word.wrapping_sub(ONES.wrapping_mul(0x20)) & !word;
    let quote = word ^ ONES.wrapping_mul(0x22);
    let backslash = word ^ ONES.wrapping_mul(0x5c);
    let is_quote = quote.wrapping_sub(ONES) & !quote;
    let is_backslash = backslash.wrapping_sub(ONES) & !backslash;
    (below_space | is_quote | is_backslash) & HIGHS
}

/// The escape of a byte: its length and characters.
pub(super) const fn escaped(byte: u8) -> ([u8; 6], usize) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            return (
                [
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    hex_digit(byte >> 4),
                    hex_digit(byte & 15),
                ],
                6,
            );
        }
    };
    ([b'\\', short, 0, 0, 0, 0], 2)
}

const fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' | nibble
    } else {
        b'a'.wrapping_add(nibble.wrapping_sub(10))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_and_bytes_agree(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let simple = bytes.iter().position(|byte| needs_escape(*byte));
            prop_assert_eq!(first_escape(&bytes), simple);
            prop_assert_eq!(position_of_escape(&bytes), simple);
        }

        #[test]
        fn one_bad_byte_is_found_at_every_position(length in 1..40_usize, at in 0..40_usize, bad in 0..0x20_u8) {
            let mut bytes = vec![b'x'; length];
            bytes[at % length] = bad;
            prop_assert_eq!(first_escape(&bytes), Some(at % length));
            bytes[length - 1] = b'"';
            prop_assert_eq!(position_of_escape(&bytes), Some(at % length));
        }
    }
}
