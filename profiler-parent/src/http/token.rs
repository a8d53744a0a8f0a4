//! Compares secrets in paths. Used by the services.

/// Compares two strings in a time that does not depend on the position of the first difference, so
/// a client cannot guess a secret letter by letter.
pub(crate) fn is_same(given: &str, secret: &str) -> bool {
    let differences = given
        .bytes()
        .zip(secret.bytes())
        .fold(0, |all, (one, other)| all | (one ^ other));
    given.len() == secret.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_equal() {
        assert!(is_same("ab12", "ab12"));
        for other in ["", "a", "ab1", "ab123", "ab13", "AB12"] {
            assert!(!is_same(other, "ab12"), "{other}");
        }
    }
}
