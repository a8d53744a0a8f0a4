//! Removes the secrets of a request from the text of its answer.
//!
//! Used by the clients of `fleet` and `push`. A server may repeat the headers of a request in an
//! error, also as JSON. Pure.

/// The mark that stands for a secret.
const MASK: &str = "…";

/// A text without these secrets, as they are and as strings of JSON.
pub(crate) fn masked(text: &str, secrets: &[&str]) -> String {
    // A server may remove white space around them. A password may be empty.
    let secrets = secrets.iter().map(|secret| secret.trim());
    let mut forms: Vec<String> = secrets
        .filter(|secret| !secret.is_empty())
        .flat_map(forms_of)
        .collect();
    // A secret may contain another one.
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms
        .iter()
        .fold(text.to_owned(), |text, form| text.replace(form, MASK))
}

/// A secret, and the strings of JSON that stand for it. Some libraries write `/` as `\/`.
fn forms_of(secret: &str) -> [String; 3] {
    let quoted = serde_json::Value::from(secret).to_string();
    let json = quoted.get(1..quoted.len().saturating_sub(1));
    let json = json.unwrap_or_default().to_owned();
    [secret.to_owned(), json.replace('/', r"\/"), json]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_form_of_a_secret_is_masked() {
        let secret = "a/b\"c\\d";
        for (answer, shown) in [
            ("key a/b\"c\\d!", "key …!"),
            (r#"{"key":"a/b\"c\\d"}"#, r#"{"key":"…"}"#),
            (r#"{"key":"a\/b\"c\\d"}"#, r#"{"key":"…"}"#),
            ("a/b", "a/b"),
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
            let json = serde_json::json!({ "said": format!("{before}{secret}{after}") }).to_string();
            for answer in [format!("{before}{secret}{after}"), json.clone()] {
                prop_assert!(masked(&answer, &[secret]).contains(MASK), "{answer}");
            }
        }
    }
}
