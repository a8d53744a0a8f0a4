//! Fuzzes the parsers of the two environment variables: a value that parses, written again, parses
//! to the same environment or address.

use ipc_protocol::environment::{ChildEnvironment, SessionAddress};

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
    if let Ok(address) = SessionAddress::parse(data) {
        assert_eq!(
            SessionAddress::parse(&address.to_value()).ok(),
            Some(address)
        );
    }
}
