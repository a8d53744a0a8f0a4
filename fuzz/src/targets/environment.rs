//! Fuzzes the parsers of the environment variables. A value that parses to an environment or an
//! address, written again, parses to the same. Options of a session are within their bounds.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ipc_protocol::environment::{ChildEnvironment, SessionAddress, StartupOptions};
use profiler_core::ids::{ByteLimit, ProcessId};
use profiler_core::session::SessionParams;
use profiler_core::thread::ThreadFilter;

/// Checks one input.
pub(crate) fn check_input(data: &[u8]) {
    check_startup(data);
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

fn check_startup(data: &[u8]) {
    let Ok(options) = StartupOptions::parse(OsStr::from_bytes(data)) else {
        return;
    };
    let file = options.file_of(ProcessId::new(7));
    assert!(!file.as_os_str().is_empty() && !file.as_os_str().as_bytes().contains(&0));
    let limits = ByteLimit::new(1)..=SessionParams::MAX_LIMIT;
    assert!(options.limit.is_none_or(|limit| limits.contains(&limit)));
    let is_too_long = |interval| interval > SessionParams::MAX_INTERVAL;
    assert!(!options.interval.is_some_and(is_too_long));
    let mut filters = options.filters.iter();
    assert!(filters.all(|filter| ThreadFilter::why_nonsense(filter).is_none()));
}
