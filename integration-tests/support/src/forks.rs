//! Forked children of a test's process.

#![allow(unsafe_code)]

/// Runs `body` in a forked child, which then ends with `_exit` and the code that `body` returns.
/// Returns the status of the child, as `waitpid` reports it: 0 if it has ended with the code 0.
///
/// # Safety
/// `body` does only what a forked child of a process with several threads may do. It does not
/// unwind.
///
/// # Panics
/// If the process cannot be forked.
pub unsafe fn in_forked_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the caller guarantees that the child may do what it does.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = body();
        // SAFETY: `_exit` has no preconditions; it ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = -1;
    // SAFETY: waits for the child above; the status is written to a live variable.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert!(child > 0 && waited == child, "fork: {child}, {waited}");
    status
}
