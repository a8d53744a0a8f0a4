//! The value of the environment variable: what is understood says the same again.

#![no_main]

use ipc_protocol::environment::ChildEnvironment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &str| {
    if let Ok(environment) = ChildEnvironment::parse(data) {
        assert_eq!(ChildEnvironment::parse(&environment.to_value()).ok(), Some(environment));
    }
});
