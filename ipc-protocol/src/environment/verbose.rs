//! Whether the user wants to know why the profiler is off.
//!
//! Read by `profiler-child` and `profiler-startup`, which then print one line. Invariant: without
//! the variable, and in a process with more rights than its parent process, nothing is printed.

use crate::sys;

/// The name of the environment variable that asks for the reason.
pub const VERBOSE_VARIABLE: &str = "MULTIPROCESS_PROFILER_VERBOSE";

/// Whether the variable is set, to anything but `0` and the empty text.
pub fn is_verbose() -> bool {
    let value = std::env::var_os(VERBOSE_VARIABLE);
    value.is_some_and(|value| !value.is_empty() && value != "0") && !sys::has_raised_rights()
}
