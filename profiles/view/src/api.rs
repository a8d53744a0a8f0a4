//! The requests of the viewer about the code in a profile, and the form of their answers.
//!
//! The viewer sends three kinds of requests, all as JSON with the method POST, to paths below one
//! address, its symbol server:
//!
//! | path | asks for |
//! |---|---|
//! | `symbolicate/v5` | names, files and lines of addresses |
//! | `source/v1` | the text of a source file |
//! | `asm/v1` | the assembly code of a function |
//!
//! A request that cannot be answered gets `{"error": TEXT}` with status 200: the viewer shows the
//! text, but only the number of any other status. Called by the server on worker threads.

use std::fmt::Display;
use std::fs::File;

use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize};

use profiler_symbols::bounded::{LONGEST_ANSWER, to_json};

/// Answers the viewer's requests about the code in a profile.
///
/// Every method gets the served file and the JSON of a request, and returns the JSON of the answer,
/// or `None` if the request is malformed. The methods may be called concurrently.
/// [`symbols_of_this_machine`](super::symbols_of_this_machine) answers from the files on this
/// machine, [`NoSymbols`](super::NoSymbols) without them.
pub trait SymbolicationApi: Send + Sync {
    /// Answers a request to `symbolicate/v5`.
    fn symbolicate(&self, profile: &File, request: &str) -> Option<String>;

    /// Answers a request to `source/v1`.
    fn source(&self, profile: &File, request: &str) -> Option<String>;

    /// Answers a request to `asm/v1`.
    fn assembly(&self, profile: &File, request: &str) -> Option<String>;
}

#[derive(Serialize)]
struct ErrorAnswer {
    error: String,
}

/// The answer that tells the user why there is no other answer.
pub(super) fn error_answer(error: &impl Display) -> Option<String> {
    let error = error.to_string();
    to_json(&ErrorAnswer { error }, LONGEST_ANSWER)
}

/// The JSON of an answer, or of the error.
pub(super) fn answer<T: Serialize, E: Display>(found: Result<T, E>) -> Option<String> {
    match found {
        Ok(found) => to_json(&found, LONGEST_ANSWER)
            .or_else(|| error_answer(&"the answer is longer than the limit")),
        Err(error) => error_answer(&error),
    }
}

/// Reads a number that is written as a text like `"0x1f"`.
pub(super) fn hexadecimal<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    let digits = text
        .strip_prefix("0x")
        .filter(|digits| digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| D::Error::custom("not a number like \"0x1f\""))
}
