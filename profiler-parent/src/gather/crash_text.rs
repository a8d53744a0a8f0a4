//! A crash in the words of a verdict.
//!
//! Made by `panic_evidence`, shown by `verdict`. Invariant: the texts come from the memory of
//! another process; they are bounded by their decoder and have no control characters.

use std::fmt;

use profiler_gecko::model::CrashInfo;
use serde::Serialize;

use super::panic_text::one_line;

/// A crash that `profiler-crash` has recorded, as a verdict names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashText {
    /// The name of the thread that crashed; empty if it has none.
    pub thread: String,
    /// The name of the signal, such as `SIGSEGV`. An overflow of the stack may end the process by
    /// another one.
    pub signal: String,
    /// What the signal reports, such as `address not mapped`.
    pub reason: String,
    /// The address that the fault is about, such as `0x10`; empty if there is none.
    pub address: String,
}

impl CrashText {
    pub(super) fn new(crash: &CrashInfo) -> Self {
        Self {
            thread: one_line(&crash.thread),
            signal: one_line(&crash.signal),
            reason: one_line(&crash.reason),
            address: one_line(&crash.address),
        }
    }
}

impl fmt::Display for CrashText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thread = match self.thread.as_str() {
            "" => "a thread",
            name => name,
        };
        write!(f, "{thread}: {}: {}", self.signal, self.reason)?;
        match self.address.as_str() {
            "" => Ok(()),
            address => write!(f, ", at {address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_without_a_name_and_an_address_has_a_text() {
        let mut crash = CrashText {
            thread: String::new(),
            signal: "SIGABRT".to_owned(),
            reason: "aborted".to_owned(),
            address: String::new(),
        };
        assert_eq!(crash.to_string(), "a thread: SIGABRT: aborted");
        crash.thread = "worker".to_owned();
        crash.address = "0x10".to_owned();
        assert_eq!(crash.to_string(), "worker: SIGABRT: aborted, at 0x10");
    }
}
