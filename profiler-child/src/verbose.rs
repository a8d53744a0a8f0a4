//! Says why a call did not begin to record, if the environment asks for it.
//!
//! Called on the host's thread, because the profiler's own threads have other standard streams.
//! Invariants: without `MULTIPROCESS_PROFILER_VERBOSE` nothing is printed; one call prints at most
//! one line, and does not wait for a reader of it.

use ipc_protocol::environment::{SESSION_VARIABLE, STARTUP_VARIABLE, VARIABLE};
use ipc_protocol::environment::{asks_for_startup, is_verbose};
use profiler_core::session;

use crate::connect::{Status, program_name};

/// Prints one line to standard error if the process does not record because of this status, and if
/// the environment asks for the reason.
pub fn tell_if_off(status: &Status) {
    if is_verbose()
        && let Some(why) = why_off(status)
    {
        tell(&why);
    }
}

/// Prints a line about this process to standard error.
pub fn tell(what: &str) {
    let (name, pid) = (program_name(), std::process::id());
    profiler_sys::tell(&format!("profiler: {name} [{pid}]: {what}"));
}

fn why_off(status: &Status) -> Option<String> {
    match status {
        Status::Recording | Status::Started | Status::AlreadyDone => None,
        // The process records for a session that it has started before.
        Status::NoParent if session::is_active() => None,
        Status::NoParent => Some(format!("off: {}", no_session())),
        Status::Joining => Some(
            "not recorded yet: the session has not answered; a thread goes on waiting for up to a \
             minute"
                .to_owned(),
        ),
        Status::Off(error) => Some(format!("off: {error}")),
    }
}

/// Why there is no session.
fn no_session() -> String {
    let none = format!(
        "no session has started this process or one above it: neither {VARIABLE} nor \
         {SESSION_VARIABLE} is set"
    );
    if asks_for_startup() {
        format!(
            "{none}. {STARTUP_VARIABLE} is set, and only programs obey it that call \
             `Session::from_env()` or are built with profiler-startup"
        )
    } else {
        none
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::InitError;

    #[test]
    fn only_a_call_without_effect_has_a_reason() {
        for status in [Status::Recording, Status::Started, Status::AlreadyDone] {
            assert_eq!(why_off(&status), None);
        }
        let why = |status| why_off(&status).unwrap();
        assert!(why(Status::NoParent).contains(SESSION_VARIABLE));
        assert!(why(Status::Joining).contains("has not answered"));
        let error = InitError::OwnSession;
        let text = error.to_string();
        assert_eq!(why(Status::Off(error)), format!("off: {text}"));
    }
}
