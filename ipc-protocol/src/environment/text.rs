//! Escapes bytes as printable ASCII, and reverses it.
//!
//! Used for the paths in the environment variable, which may contain any byte. Invariant: the
//! escaped form contains no `;`, no `:` and only printable characters.

/// Writes every byte but letters, digits and `/._-` as `%` and two hex digits.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push_str(&hex(&[byte]));
        }
    }
    text
}

/// Reverses [`escape`]; `None` for any other text.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, plain) = part.split_at_checked(2)?;
        bytes.extend(unhex(digits)?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    Some(bytes)
}

/// Formats each byte as two lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads pairs of lower-case hex digits.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}
