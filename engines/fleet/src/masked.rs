//! Removes the secrets of a request from the text of its answer.
//!
//! Used by the clients of `fleet` and `push`. A server may repeat the headers of a request in an
//! error, also in JSON. Pure. Invariant: a text is masked before it is shortened, because a part of
//! a secret is not recognised.

use std::fmt;

/// The mark that stands for a secret.
const MASK: &str = "…";

/// The secrets of a request.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestSecrets(Vec<String>);

impl fmt::Debug for RequestSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestSecrets(…)")
    }
}

impl RequestSecrets {
    /// The secrets that are removed from texts.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        // A server may trim a secret, and a password may be empty.
        let trimmed = secrets.into_iter().map(|secret| secret.trim().to_owned());
        let mut secrets: Vec<String> = trimmed.filter(|secret| !secret.is_empty()).collect();
        // A secret may contain another one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// Returns the text with `…` in place of each secret. If a secret is in it with the escapes of
    /// JSON, returns the text without these escapes.
    pub fn masked(&self, text: &str) -> String {
        let text = self.replaced(text);
        let plain = unescaped(&text);
        match self.0.iter().any(|secret| plain.contains(secret)) {
            true => self.replaced(&plain),
            false => text,
        }
    }

    fn replaced(&self, text: &str) -> String {
        let secrets = self.0.iter();
        secrets.fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

/// A text without the escapes of JSON for single characters of ASCII. Libraries differ in the
/// characters that they escape.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let (letter, length) = escape(after).unwrap_or(('\\', 0));
        plain.push(letter);
        rest = after.get(length..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

/// The character of an escape after its backslash, and the length of the escape.
fn escape(text: &str) -> Option<(char, usize)> {
    let first = text.chars().next()?;
    match first {
        '"' | '\\' | '/' => Some((first, 1)),
        'u' => {
            let code = u8::from_str_radix(text.get(1..5)?.strip_prefix("00")?, 16).ok()?;
            code.is_ascii().then_some((char::from(code), 5))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(text: &str, secrets: &[&str]) -> String {
        RequestSecrets::new(secrets.iter().map(|secret| (*secret).to_owned())).masked(text)
    }

    #[test]
    fn a_secret_is_masked_whatever_a_library_of_json_escapes() {
        let secret = "a/b\"c\\d&e+";
        for (answer, shown) in [
            ("key a/b\"c\\d&e+!", "key …!"),
            (r#"{"key":"a/b\"c\\d&e+"}"#, r#"{"key":"…"}"#),
            (r#"{"key":"a\/b\"c\\d&e+"}"#, r#"{"key":"…"}"#),
            (r#"{"key":"a/b\"c\\d\u0026e+"}"#, r#"{"key":"…"}"#),
            (r#"{"key":"a/b\u0022c\\d\u0026e\u002B"}"#, r#"{"key":"…"}"#),
            (r"a/b \u00e4 \u26 \", r"a/b \u00e4 \u26 \"),
        ] {
            assert_eq!(masked(answer, &["", secret]), shown);
        }
    }

    #[test]
    fn a_secret_within_another_one_does_not_reveal_the_rest() {
        assert_eq!(masked("hunter22", &["hunter2", "hunter22"]), "…");
    }

    proptest! {
        #[test]
        fn no_secret_remains(secret in "[ -~]{4,12}", before in ".{0,9}", after in ".{0,9}") {
            let secret = secret.trim();
            prop_assume!(secret.len() >= 4);
            let said = format!("{before}{secret}{after}");
            let json = serde_json::Value::from(said.as_str()).to_string();
            let escaped: String = json.chars().map(|letter| match letter {
                '&' | '<' | '>' | '+' | '\'' => format!("\\u{:04x}", u32::from(letter)),
                letter => letter.to_string(),
            }).collect();
            for answer in [said, json, escaped] {
                let shown = masked(&answer, &[secret]);
                prop_assert!(shown.contains(MASK) && !shown.contains(secret), "{shown}");
            }
        }
    }
}
