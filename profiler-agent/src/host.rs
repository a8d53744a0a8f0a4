//! What the agent learns about the program into which it was loaded.
//!
//! Used by `joining`. Invariant: nothing here changes the process.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::time::Duration;

use profiler_child::JOIN_WAIT;
use profiler_core::internal::recorder_note;

/// The variable that changes how long a program waits for the session.
const WAIT_VARIABLE: &str = "PROFILER_JOIN_WAIT_MS";
/// The longest time that the variable can set.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Functions of the run-time libraries of sanitizers. They replace the allocator and watch all
/// memory, so they would report the profiler's memory and threads.
const SANITIZERS: [&CStr; 4] = [
    c"__asan_init",
    c"__hwasan_init",
    c"__msan_init",
    c"__tsan_init",
];

/// How long a program waits for the session: [`JOIN_WAIT`], unless the variable [`WAIT_VARIABLE`]
/// contains another number of milliseconds.
pub(crate) fn join_wait() -> Duration {
    let text = std::env::var(WAIT_VARIABLE).unwrap_or_default();
    let milliseconds = text.parse().map_or(JOIN_WAIT, Duration::from_millis);
    milliseconds.min(LONGEST_WAIT)
}

/// Why the profiler must stay out of this process; `None` if it may record.
pub(crate) fn why_forbidden() -> Option<&'static str> {
    if is_privileged() {
        Some("the program has more rights than the process that has started it")
    } else if is_instrumented() {
        Some("the program is built with a sanitizer")
    } else if recorder_note::is_in_another_file() {
        Some("the program contains the profiler, which records instead of this library")
    } else {
        None
    }
}

/// Whether the process has more rights than its parent process, which has written the environment.
fn is_privileged() -> bool {
    // SAFETY: reads a value that the kernel has passed to the process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the program is built with a sanitizer.
fn is_instrumented() -> bool {
    let is_present = |name: &&CStr| {
        // SAFETY: the name is terminated by a zero; looking a symbol up runs no code of it.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        !found.is_null()
    };
    let found = SANITIZERS.iter().any(is_present);
    // SAFETY: takes the message of a failed look-up, which the program would read as its own.
    let _ = unsafe { libc::dlerror() };
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_program_may_be_profiled() {
        assert!(!is_privileged());
        assert!(!is_instrumented());
        // SAFETY: as above.
        assert!(unsafe { libc::dlerror() }.is_null());
    }
}
