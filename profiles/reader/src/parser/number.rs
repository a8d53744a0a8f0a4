//! Numbers of JSON.
//!
//! Used by [`super::Parser`] and by [`super::skip`]. Invariant: a number has the value that
//! serde_json gives it.

/// The longest number, in bytes. The writers of profiles need 25 bytes.
const LONGEST: usize = 64 * 1024;

/// The number of digits that fit into 64 bits.
const DIGITS: usize = 19;

/// Powers of ten that are exact.
const POWERS: [f64; DIGITS + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19,
];

/// The value of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Positive(u64),
    Negative(i64),
    Float(f64),
}

/// Reads a number that has at most [`DIGITS`] digits and no exponent, and that ends within `text`.
/// Returns its value and length; `None` for other text.
#[inline]
pub(super) fn short(text: &[u8]) -> Option<(Number, usize)> {
    let is_negative = text.first() == Some(&b'-');
    let start = usize::from(is_negative);
    let mut significand = 0;
    let whole = digits(text, start, &mut significand)?;
    if whole == start || (whole - start > 1 && text.get(start) == Some(&b'0')) {
        return None;
    }
    match text.get(whole)? {
        b'.' => {
            let end = digits(text, whole + 1, &mut significand)?;
            let decimals = end - whole - 1;
            let is_plain = decimals > 0 && end - start <= DIGITS + 1;
            let power = POWERS.get(decimals).filter(|_| is_plain)?;
            if matches!(text.get(end)?, b'e' | b'E') {
                return None;
            }
            let number = significand as f64 / power;
            let number = if is_negative { -number } else { number };
            Some((Number::Float(number), end))
        }
        b'e' | b'E' => None,
        _ if whole - start > DIGITS => None,
        _ if is_negative => {
            let negative = i64::try_from(significand).ok().filter(|n| *n > 0)?;
            Some((Number::Negative(-negative), whole))
        }
        _ => Some((Number::Positive(significand), whole)),
    }
}

/// Adds digits to a number. Returns their end, if it is within `text`.
#[inline]
fn digits(text: &[u8], start: usize, number: &mut u64) -> Option<usize> {
    let mut end = start;
    let mut sum = *number;
    loop {
        let digit = text.get(end)?.wrapping_sub(b'0');
        if digit > 9 {
            *number = sum;
            return Some(end);
        }
        sum = sum.wrapping_mul(10).wrapping_add(u64::from(digit));
        end += 1;
    }
}

/// The value of any number that is well-formed; `None` if it is out of range.
pub(super) fn long(text: &[u8]) -> Option<Number> {
    let number: serde_json::Number = serde_json::from_slice(text).ok()?;
    let whole = number.as_u64().map(Number::Positive);
    let negative = || number.as_i64().map(Number::Negative);
    whole
        .or_else(negative)
        .or_else(|| number.as_f64().map(Number::Float))
}

/// The length of the number that begins at the start of `text`; `None` if it may be longer than
/// `text`.
///
/// # Errors
/// What was expected instead of the text.
#[inline]
pub(super) fn length(text: &[u8], is_last: bool) -> Result<Option<usize>, &'static str> {
    let all = |at: usize| at + text.get(at..).map_or(0, digit_count);
    let mut end = usize::from(text.first() == Some(&b'-'));
    match text.get(end) {
        Some(b'0') => end += 1,
        Some(b'1'..=b'9') => end = all(end),
        Some(_) => return Err("a digit"),
        None => {}
    }
    if text.get(end) == Some(&b'.') {
        end = at_least_one(all, end + 1, text)?;
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let sign = matches!(text.get(end + 1), Some(b'+' | b'-'));
        end = at_least_one(all, end + 1 + usize::from(sign), text)?;
    }
    match text.get(end) {
        Some(b'0'..=b'9') => Err("a number without a leading zero"),
        None if text.len() > LONGEST => Err("a shorter number"),
        None if !is_last => Ok(None),
        None if !text.last().is_some_and(u8::is_ascii_digit) => Err("a digit"),
        _ => Ok(Some(end)),
    }
}

#[inline]
fn at_least_one(
    all: impl Fn(usize) -> usize,
    start: usize,
    text: &[u8],
) -> Result<usize, &'static str> {
    match all(start) {
        end if end == start && start < text.len() => Err("a digit"),
        end => Ok(end),
    }
}

#[inline]
fn digit_count(text: &[u8]) -> usize {
    let is_digit = |byte: &u8| byte.wrapping_sub(b'0') <= 9;
    text.iter()
        .position(|byte| !is_digit(byte))
        .unwrap_or(text.len())
}
