//! Comparing tokens: what protects [`crate::live`] and [`crate::view`], whose addresses have one.

/// Compares without stopping at the first difference, so that nobody can find a token out letter by letter.
pub(crate) fn is_same(given: &str, token: &str) -> bool {
    let differences = given.bytes().zip(token.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    given.len() == token.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_same() {
        assert!(is_same("ab12", "ab12"));
        for other in ["", "a", "ab1", "ab123", "ab13", "AB12"] {
            assert!(!is_same(other, "ab12"), "{other}");
        }
    }
}
