//! The limit on the descriptors of this command.
//!
//! Used by `record`: the session uses several descriptors for each recorded process, and many
//! systems limit a program to 1,024 unless it raises its limit.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as the system allows without privileges. Programs that are started later
/// inherit it. Some programs use select(2), which accepts only descriptors below 1,024, so start
/// programs before this call.
pub(super) fn use_all() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, fewer processes are recorded at the same time.
    let _ = setrlimit(Resource::Nofile, limit);
}
