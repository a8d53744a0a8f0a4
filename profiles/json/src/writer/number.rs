//! Decimal digits without loops or tables: eight at a time in one 64-bit word.
//!
//! Used by [`super::JsonWriter`] for integers and for times. A time is whole nanoseconds, so
//! its milliseconds have at most six decimals and need no floating point. Digits are computed
//! and stored as one word of which a prefix counts, because storing eight bytes is one
//! instruction while copying "three to eight" is a call.

/// Numbers below this have at most eight digits.
const EIGHT_DIGITS: u64 = 100_000_000;

const NS_PER_MS: u64 = 1_000_000;
const ASCII_ZEROS: u64 = 0x3030_3030_3030_3030;

/// Maximum number of bytes that one number takes, including its comma, sign and point, and the
/// bytes that are stored beyond its end.
pub(super) const ROOM: usize = 40;

/// Writes one number into a buffer that is large enough for every number.
#[derive(Debug)]
pub(super) struct NumberWriter<'a> {
    room: &'a mut [u8; ROOM],
    len: usize,
}

impl<'a> NumberWriter<'a> {
    #[inline]
    pub(super) const fn new(room: &'a mut [u8; ROOM]) -> Self {
        Self { room, len: 0 }
    }

    /// Bytes written.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// One character if `there`, else none.
    #[inline]
    pub(super) fn character(&mut self, character: u8, there: bool) {
        if let Some(place) = self.room.get_mut(self.len) {
            *place = character;
        }
        self.len = self.len.wrapping_add(usize::from(there));
    }

    /// A whole number without leading zeros.
    #[inline]
    pub(super) fn whole(&mut self, number: u64) {
        if number < EIGHT_DIGITS {
            self.short(number);
        } else {
            self.long(number);
        }
    }

    /// A time in nanoseconds as milliseconds with up to six decimals.
    #[inline]
    pub(super) fn millis(&mut self, ns: u64) {
        self.whole(ns / NS_PER_MS);
        // Six digits, the first in the lowest byte; the two zeros before them fall out.
        let digits = eight_digits(ns % NS_PER_MS) >> 16;
        if digits != 0 {
            let shown = 8_u32.wrapping_sub(digits.leading_zeros() / 8);
            self.store(
                ((digits | ASCII_ZEROS) << 8) | u64::from(b'.'),
                shown.wrapping_add(1),
            );
        }
    }

    fn long(&mut self, number: u64) {
        let high = number / EIGHT_DIGITS;
        let low = number % EIGHT_DIGITS;
        if high < EIGHT_DIGITS {
            self.short(high);
        } else {
            self.short(high / EIGHT_DIGITS);
            self.store(eight_digits(high % EIGHT_DIGITS) | ASCII_ZEROS, 8);
        }
        self.store(eight_digits(low) | ASCII_ZEROS, 8);
    }

    #[inline]
    fn short(&mut self, number: u64) {
        let digits = eight_digits(number);
        let leading = (digits.trailing_zeros() / 8).min(7);
        self.store(
            (digits | ASCII_ZEROS) >> (8 * leading),
            8_u32.wrapping_sub(leading),
        );
    }

    /// Stores all eight characters, of which the first `len` count.
    #[inline]
    fn store(&mut self, characters: u64, len: u32) {
        if let Some(room) = self
            .room
            .get_mut(self.len..)
            .and_then(|room| room.first_chunk_mut())
        {
            *room = characters.to_le_bytes();
        }
        self.len = self.len.wrapping_add(usize::try_from(len).unwrap_or(0));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_up_to_eight_digits_are_split_into_digits() {
        let mut number = 0;
        while number < EIGHT_DIGITS {
            let digits = eight_digits(number).to_le_bytes();
            let back = digits
                .iter()
                .fold(0_u64, |sum, digit| sum * 10 + u64::from(*digit));
            assert_eq!(back, number);
            assert!(digits.iter().all(|digit| *digit < 10), "{number}");
            number += if number < 20_000 { 1 } else { 97 };
        }
    }
}
