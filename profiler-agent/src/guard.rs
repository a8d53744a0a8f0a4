//! What surrounds every function of this library that the program or the system calls.
//!
//! The program's `errno` is as before when such a function returns, and a panic ends in it. Called
//! by all functions of `c_api`, by `start` and by the handlers of forks.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`, and keeps the program's `errno`. Returns `otherwise` if `body` panics.
#[inline]
pub(crate) fn guarded<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    keep_errno(|| catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise))
}

/// Runs `body`, and keeps the program's `errno`. For what cannot panic.
#[inline]
pub(crate) fn keep_errno<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: the address of this thread's own `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: valid for the life of the thread.
    let before = unsafe { *errno };
    let result = body();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_is_kept_and_a_panic_ends_here() {
        let fails = || {
            // SAFETY: fails, because there is no such descriptor.
            unsafe { libc::close(-1) }
        };
        keep_errno(|| {
            assert_eq!(fails(), -1);
            let before = std::io::Error::last_os_error().raw_os_error();
            // SAFETY: fails, because the path is empty.
            let other = || unsafe { libc::chdir(c"".as_ptr()) };
            assert_eq!(guarded(7, other), -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), before);
            assert_eq!(guarded(7, || panic!("a test")), 7);
        });
    }
}
