//! Whether the process may map more memory.
//!
//! A failed allocation of Rust's collections ends the process, and so does a new thread for which
//! the standard library finds no memory. So whatever of the profiler needs much memory at once asks
//! before it begins, and fails with an error instead. The answer is that of this moment: other
//! threads may take the memory meanwhile.

use std::io;

/// The flag of a mapping that reserves no memory. FreeBSD reserves none without a flag.
#[cfg(all(unix, not(target_os = "freebsd")))]
const NO_RESERVE: libc::c_int = libc::MAP_NORESERVE;
#[cfg(target_os = "freebsd")]
const NO_RESERVE: libc::c_int = 0;

/// Whether this number of bytes can be mapped now. Takes two system calls, and no memory.
///
/// # Errors
/// The system's error, for example because of a limit of the address space (`ulimit -v`).
#[cfg(unix)]
#[allow(unsafe_code)]
pub fn check_address_space(bytes: usize) -> io::Result<()> {
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | NO_RESERVE;
    // SAFETY: a new mapping without rights, at an address that the system chooses.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes.max(1),
            libc::PROT_NONE,
            kind,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: mapped above, and nothing refers to it.
    unsafe { libc::munmap(mapped, bytes.max(1)) };
    Ok(())
}

/// Whether this number of bytes can be mapped now: not known on this system.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn check_address_space(_bytes: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_whole_address_space_is_refused() {
        assert!(check_address_space(1 << 20).is_ok());
        assert!(check_address_space(usize::MAX >> 1).is_err());
    }
}
