//! The functions on Linux: inherited descriptors, and checks of the process before it uses the
//! environment variable.
//!
//! Used by [`crate::environment`]. Invariant: a number from outside is checked as a bare number
//! (`fstat`) before a descriptor of it is made or closed. It may refer to a file of the program,
//! and closing any descriptor of a file releases all POSIX locks that the process holds on that
//! file.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use profiler_sys::FileIdentity;

/// Whether the process has more rights than its parent process (`AT_SECURE`).
#[allow(unsafe_code)]
pub(crate) fn has_raised_rights() -> bool {
    // SAFETY: reads a value that the kernel provides to the process; any argument is allowed.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the process has exactly one thread; `false` if unknown.
pub(crate) fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// Ends sending and receiving on the socket with this number, which its owner keeps open.
#[allow(unsafe_code)]
pub(crate) fn shut_down(number: RawFd) {
    // SAFETY: takes plain numbers; the kernel checks the first.
    unsafe { libc::shutdown(number, libc::SHUT_RDWR) };
}

/// The path of these bytes.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Number and identity of an open file.
pub(crate) fn identity(file: &File) -> io::Result<(i32, FileIdentity)> {
    Ok((file.as_raw_fd(), FileIdentity::of_number(file.as_raw_fd())?))
}

/// A duplicate of the inherited descriptor, if it refers to this file.
pub(crate) fn duplicate_inherited(number: i32, expected: FileIdentity) -> io::Result<File> {
    check(number, expected)?;
    let copy = duplicate(number)?;
    if check(copy.as_raw_fd(), expected).is_err() {
        // The program reused the number for another file between the two calls. Closing the copy
        // could release the program's locks on that file.
        std::mem::forget(copy);
        return Err(another_file());
    }
    Ok(File::from(copy))
}

/// Closes the inherited descriptor, if it refers to this file.
#[allow(unsafe_code)]
pub(crate) fn close_inherited(number: i32, expected: FileIdentity) -> io::Result<()> {
    check(number, expected)?;
    // SAFETY: the number came through exec, and no value of this program owned it. By the
    // comparison above it still is the parent's file, and the caller gives it up by this call.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(())
}

/// Whether the inherited descriptor refers to this file.
pub(crate) fn check_inherited(number: i32, expected: FileIdentity) -> io::Result<()> {
    check(number, expected)
}

fn check(number: RawFd, expected: FileIdentity) -> io::Result<()> {
    if FileIdentity::of_number(number)? == expected {
        Ok(())
    } else {
        Err(another_file())
    }
}

fn another_file() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "the descriptor refers to another file",
    )
}

/// A new descriptor for the same open file. Works on any number: a closed one is an error.
#[allow(unsafe_code)]
fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns plain numbers; the kernel checks the first.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_descriptor_cannot_be_duplicated() {
        assert!(duplicate(-1).is_err());
        let anything = FileIdentity {
            device: 1,
            inode: 1,
        };
        assert!(duplicate_inherited(i32::MAX, anything).is_err());
    }

    #[test]
    fn only_the_expected_file_is_taken_over() {
        let file = tempfile::tempfile().unwrap();
        let other = tempfile::tempfile().unwrap();
        let (number, expected) = identity(&file).unwrap();
        assert_eq!(
            identity(&duplicate_inherited(number, expected).unwrap())
                .unwrap()
                .1,
            expected
        );
        let (_, foreign) = identity(&other).unwrap();
        assert!(duplicate_inherited(number, foreign).is_err());
        assert!(close_inherited(number, foreign).is_err());
        let elsewhere = FileIdentity {
            device: expected.device + 1,
            ..expected
        };
        assert!(
            duplicate_inherited(number, elsewhere).is_err(),
            "an equal inode of another device"
        );
        assert_eq!(identity(&file).unwrap(), (number, expected), "still open");
    }
}
