//! Texts and numbers that C passes.
//!
//! Used by `c_api`. Invariants: null pointers, texts that are not UTF-8, and texts of any length
//! are accepted; at most the stated number of bytes is read.

#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::c_char;
use std::slice;

/// Longest name of a marker, label, counter, group or thread, in bytes. Longer names are cut.
pub(crate) const MAX_NAME_BYTES: usize = 1024;
/// Longest text of a marker, in bytes. Longer texts are cut.
pub(crate) const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Most numbers of a marker. Further ones are left out.
pub(crate) const MAX_NUMBERS: usize = 64;

/// Reads a text of at most `most` bytes; `None` for a null pointer. Bytes that are not UTF-8 are
/// replaced, which allocates.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero and do not change during `'a`.
pub(crate) unsafe fn read<'a>(text: *const c_char, most: usize) -> Option<Cow<'a, str>> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the text ends with a zero, and no byte after it or after `most` bytes is read.
    let length = unsafe { libc::strnlen(text, most) };
    // SAFETY: these bytes have just been read, and do not change.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), length) };
    Some(decode(bytes, length == most))
}

/// Reads the name of something. `None` for a null pointer.
///
/// # Safety
/// As [`read`].
pub(crate) unsafe fn name<'a>(name: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: the same condition.
    unsafe { read(name, MAX_NAME_BYTES) }
}

/// Reads numbers; none for a null pointer.
///
/// # Safety
/// `numbers` is null, or points to `count` numbers that do not change during `'a`.
pub(crate) unsafe fn numbers<'a>(numbers: *const f64, count: usize) -> &'a [f64] {
    if numbers.is_null() || !numbers.is_aligned() {
        return &[];
    }
    // SAFETY: there are at least this many numbers, aligned, and they do not change.
    unsafe { slice::from_raw_parts(numbers, count.min(MAX_NUMBERS)) }
}

/// The text of these bytes. A text that was cut may end inside of a character, which is left out.
fn decode(bytes: &[u8], is_cut: bool) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(error) if is_cut && error.error_len().is_none() => {
            let whole = bytes.get(..error.valid_up_to()).unwrap_or_default();
            String::from_utf8_lossy(whole)
        }
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], most: usize) -> String {
        assert_eq!(bytes.last(), Some(&0));
        // SAFETY: the bytes end with a zero, and live during the call.
        unsafe { read(bytes.as_ptr().cast(), most) }
            .unwrap()
            .into_owned()
    }

    #[test]
    fn texts_are_read_up_to_their_end_or_the_maximum() {
        assert_eq!(text(b"parse\0rest\0", 100), "parse");
        assert_eq!(text(b"parse\0", 3), "par");
        assert_eq!(text(b"\0", 3), "");
    }

    #[test]
    fn a_cut_text_ends_with_a_whole_character() {
        assert_eq!(text("aä\0".as_bytes(), 2), "a");
        assert_eq!(text("aä\0".as_bytes(), 3), "aä");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(text(b"a\xffb\0", 100), "a\u{fffd}b");
        assert_eq!(text(b"a\xc3\0", 100), "a\u{fffd}");
    }

    #[test]
    fn null_pointers_are_nothing() {
        // SAFETY: null pointers are allowed.
        assert!(unsafe { name(std::ptr::null()) }.is_none());
        // SAFETY: as above.
        assert!(unsafe { numbers(std::ptr::null(), usize::MAX) }.is_empty());
    }
}
