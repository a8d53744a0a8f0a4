//! Fuzzes the parsers of the two environment variables: a value that parses, written again, parses
//! to the same environment or address.

#![no_main]

use ipc_protocol::environment::{ChildEnvironment, SessionAddress};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| {
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
});
