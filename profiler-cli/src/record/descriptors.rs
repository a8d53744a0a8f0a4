//! The limit on the descriptors of this command.
//!
//! Used by `record`: a recorded process costs the session several descriptors, and many systems
//! limit a program to 1,024 unless it asks for more.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as the system allows without rights. Programs that are started later
/// inherit it; some select(2) on a descriptor only below 1,024, so start them before.
pub(super) fn use_all() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it, fewer processes are recorded at the same time.
    let _ = setrlimit(Resource::Nofile, limit);
}
