//! Decimal digits without loops or tables: eight at a time in one 64-bit word.
//!
//! Used by [`super::JsonWriter`] for integers and for times. A time is whole nanoseconds, so
//! its milliseconds have at most six decimals and need no floating point. All results are
//! fixed-size words of which a prefix counts, because copying eight bytes is one store while
//! copying "three to eight" is a call.

/// Numbers below this have at most eight digits.
pub(super) const EIGHT_DIGITS: u64 = 100_000_000;

const NS_PER_MS: u64 = 1_000_000;
const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

/// Up to eight characters: the first `len` of `bytes`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Characters {
    pub(super) bytes: [u8; 8],
    pub(super) len: usize,
}

/// The digits of a number below [`EIGHT_DIGITS`], without leading zeros.
#[inline]
pub(super) fn short_digits(number: u64) -> Characters {
    let digits = eight_digits(number);
    let leading = (digits.trailing_zeros() / 8).min(7);
    let bytes = ((digits | ASCII_ZEROS) >> (8 * leading)).to_le_bytes();
    Characters { bytes, len: length(8_u32.saturating_sub(leading)) }
}

/// All eight digits of a number below [`EIGHT_DIGITS`].
#[inline]
pub(super) fn all_digits(number: u64) -> Characters {
    Characters { bytes: (eight_digits(number) | ASCII_ZEROS).to_le_bytes(), len: 8 }
}

/// Whole milliseconds of a time, and its decimals with their point (nothing if there are none).
#[inline]
pub(super) fn millis(magnitude_ns: u64) -> (u64, Characters) {
    let whole = magnitude_ns / NS_PER_MS;
    // Six digits, the first in the lowest byte; the two zeros before them fall out.
    let digits = eight_digits(magnitude_ns % NS_PER_MS) >> 16;
    let shown = 8_u32.saturating_sub(digits.leading_zeros() / 8);
    let bytes = (((digits | ASCII_ZEROS) << 8) | u64::from(b'.')).to_le_bytes();
    (whole, Characters { bytes, len: if digits == 0 { 0 } else { length(shown).saturating_add(1) } })
}

/// Eight digits as numbers 0 to 9, one per byte, the first in the lowest byte.
///
/// Splits into two fours, four twos and eight ones, all parts of a level in one
/// multiplication: `x * 10486 >> 20` is `x / 100` below 10,000, `x * 103 >> 10` is `x / 10`
/// below 100.
#[inline]
const fn eight_digits(number: u64) -> u64 {
    let fours = (number / 10_000) | ((number % 10_000) << 32);
    let hundreds = ((fours.wrapping_mul(10_486)) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours.wrapping_sub(hundreds.wrapping_mul(100)) << 16);
    let tens = (twos.wrapping_mul(103) >> 10) & 0x000f_000f_000f_000f;
    tens | (twos.wrapping_sub(tens.wrapping_mul(10)) << 8)
}

fn length(number: u32) -> usize {
    usize::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_of_up_to_eight_digits_come_apart() {
        let mut number = 0;
        while number < EIGHT_DIGITS {
            let digits = eight_digits(number).to_le_bytes();
            let back = digits.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(*digit));
            assert_eq!(back, number);
            assert!(digits.iter().all(|digit| *digit < 10), "{number}");
            number += if number < 20_000 { 1 } else { 97 };
        }
    }
}
