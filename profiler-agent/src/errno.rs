//! The program's `errno`, which the library does not change.

#![allow(unsafe_code)]

use std::ffi::c_int;

/// Runs `body`, and gives `errno` the value that it had before.
pub(crate) fn keeping_errno<T>(body: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = body();
    set_errno(before);
    result
}

fn errno() -> c_int {
    // SAFETY: returns an address.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the variable of the calling thread, which exists as long as the thread.
    unsafe { place.read() }
}

fn set_errno(error: c_int) {
    // SAFETY: returns an address.
    let place = unsafe { libc::__errno_location() };
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
