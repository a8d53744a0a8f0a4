//! Why a request has no answer, in words for a user.
//!
//! Used by the clients of `fleet` and `push`. The messages of the client library have
//! internal names in them, such as `timeout: global` and `io: connection refused`.

use ureq::{Error, Timeout};

/// The beginning of the client library's message for an answer that is not HTTP.
const NOT_HTTP: &str = "http parse fail";

/// Why a request has no answer, or no complete one.
pub fn request_error(error: &Error) -> String {
    match error {
        Error::Timeout(Timeout::Connect | Timeout::Resolve) => "no connection in time".to_owned(),
        Error::Timeout(Timeout::SendRequest | Timeout::SendBody) => {
            "the request was not read in time".to_owned()
        }
        Error::Timeout(_) => "no answer in time".to_owned(),
        Error::Protocol(error) if error.to_string().starts_with(NOT_HTTP) => {
            "the answer is not HTTP".to_owned()
        }
        Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_failed_request_is_described_without_the_words_of_the_client_library() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        for (error, words) in [
            (Error::Timeout(Timeout::Global), "no answer in time"),
            (Error::Timeout(Timeout::Connect), "no connection in time"),
            (Error::Io(refused), "connection refused"),
        ] {
            assert_eq!(request_error(&error), words);
        }
    }
}
