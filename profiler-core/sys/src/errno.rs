//! The program's `errno`, which the profiler does not change where it interrupts the program.
//!
//! Used by signal handlers, and by the library for C. Invariant: async-signal-safe.

#![allow(unsafe_code)]

use std::ffi::c_int;

#[cfg(not(any(target_vendor = "apple", target_os = "freebsd")))]
use libc::__errno_location as errno_location;
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
use libc::__error as errno_location;

/// Runs `body`, and gives `errno` the value that it had before.
#[inline]
pub fn keeping_errno<T>(body: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = body();
    set_errno(before);
    result
}

#[inline]
fn errno() -> c_int {
    // SAFETY: returns an address.
    let place = unsafe { errno_location() };
    // SAFETY: the variable of the calling thread, which exists as long as the thread.
    unsafe { place.read() }
}

#[inline]
fn set_errno(error: c_int) {
    // SAFETY: returns an address.
    let place = unsafe { errno_location() };
    // SAFETY: the variable of the calling thread, which exists as long as the thread.
    unsafe { place.write(error) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_as_before() {
        set_errno(libc::EDOM);
        let failed = keeping_errno(|| {
            // SAFETY: an invalid descriptor.
            unsafe { libc::close(-1) }
        });
        assert_eq!((failed, errno()), (-1, libc::EDOM));
    }
}
