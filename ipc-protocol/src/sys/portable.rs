//! The functions on all other systems: nothing is inherited.
//!
//! Files are handed over by path, and the environment variable is never removed, because the number
//! of threads is unknown.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use profiler_sys::FileIdentity;

/// Unknown; assumed to be false.
pub(crate) fn has_raised_rights() -> bool {
    false
}

/// Always false: the number of threads is unknown.
pub(crate) fn is_single_threaded() -> bool {
    false
}

/// Never called: no number of a socket is known.
pub(crate) fn shut_down(_: i32) {}

/// The path of these bytes, if they are UTF-8.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Descriptors are not inherited here.
pub(crate) fn identity(_: &File) -> io::Result<(i32, FileIdentity)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Descriptors are not inherited here.
pub(crate) fn duplicate_inherited(_: i32, _: FileIdentity) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Descriptors are not inherited here.
pub(crate) fn check_inherited(_: i32, _: FileIdentity) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Descriptors are not inherited here.
pub(crate) fn close_inherited(_: i32, _: FileIdentity) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
