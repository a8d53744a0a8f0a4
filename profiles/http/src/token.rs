//! Secrets in paths and headers. Used by the services.

use hyper::header::AUTHORIZATION;

use super::request::RequestHead;

/// Compares two strings in a time that does not depend on the position of the first difference, so
/// a client cannot guess a secret letter by letter.
pub fn is_same(given: &str, secret: &str) -> bool {
    let differences = given
        .bytes()
        .zip(secret.bytes())
        .fold(0, |all, (one, other)| all | (one ^ other));
    given.len() == secret.len() && differences == 0
}

/// The token in the header `Authorization: Bearer TOKEN`, if there is exactly one such header.
pub fn bearer(request: &RequestHead) -> Option<&str> {
    let mut headers = request.headers().get_all(AUTHORIZATION).into_iter();
    let header = headers.next()?.to_str().ok()?;
    let (scheme, token) = header.split_once(' ')?;
    let is_one = scheme.eq_ignore_ascii_case("bearer") && headers.next().is_none();
    is_one.then(|| token.trim())
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

    #[test]
    fn a_bearer_token_is_in_one_header_of_that_scheme() {
        let request = |headers: &[&str]| {
            let all = headers
                .iter()
                .fold(hyper::Request::builder(), |request, header| {
                    request.header("authorization", *header)
                });
            all.body(()).unwrap()
        };
        for header in ["Bearer ab12", "bearer ab12", "BEARER  ab12 "] {
            assert_eq!(bearer(&request(&[header])), Some("ab12"), "{header}");
        }
        for headers in [
            &[][..],
            &["ab12"],
            &["Basic ab12"],
            &["Bearer"],
            &["Bearer ab12", "Bearer ab12"],
        ] {
            assert_eq!(bearer(&request(headers)), None, "{headers:?}");
        }
    }
}
