//! Fuzzes the parser of the environment variable: a value that parses, written again, parses to the
//! same environment.

#![no_main]

use ipc_protocol::environment::ChildEnvironment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| {
    if let Ok(environment) = ChildEnvironment::parse(data) {
        assert_eq!(
            ChildEnvironment::parse(&environment.to_value()).ok(),
            Some(environment)
        );
    }
});
