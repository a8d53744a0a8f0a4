//! Fuzzes the parser of the environment variable: a value that parses, written again, parses to the
//! same environment.

use ipc_protocol::environment::ChildEnvironment;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    let Ok(data) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(environment) = ChildEnvironment::parse(data) {
        assert_eq!(
            ChildEnvironment::parse(&environment.to_value()).ok(),
            Some(environment)
        );
    }
}
