//! Every other system: nothing inherited, nothing guarded.
//!
//! Files are handed over by path, the environment variable is never removed (nobody can say how
//! many threads there are), and the other side of a channel is trusted with packet headers.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use profiler_core::ids::ProcessId;

/// Unknown, so assumed not.
pub(crate) fn has_raised_rights() -> bool {
    false
}

/// Unknown.
pub(crate) fn is_single_threaded() -> bool {
    false
}

/// A path that is text.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Descriptors are not inherited here.
pub(crate) fn identity(_: &File) -> io::Result<(i32, u64)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Descriptors are not inherited here.
pub(crate) fn duplicate_inherited(_: i32, _: u64) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Descriptors are not inherited here.
pub(crate) fn close_inherited(_: i32, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// No guard.
pub(crate) fn claim_accepted(_: &Path) -> Option<Guard> {
    None
}

/// Nothing: the caller sends a message of its own.
pub(crate) fn interrupt_sockets(_: &Path) {}

/// Runs `act` as it is.
pub(crate) fn with_signals_blocked<T>(act: impl FnOnce() -> T) -> T {
    act()
}

/// What the first bytes of a packet say, and what is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // nothing makes one here
pub(crate) enum Peek {
    /// The other side is gone and nothing is left.
    Closed,
    /// One whole packet, without descriptors.
    Whole {
        /// Bytes of its content.
        length: usize,
    },
    /// Anything else.
    Foreign,
}

/// Looks at packets before they are received; never made here.
#[derive(Debug)]
pub(crate) enum Guard {}

/// Ends an accepted channel; never made here.
#[derive(Clone, Debug)]
#[allow(dead_code)] // nothing makes one here
pub(crate) struct HangUp;

impl HangUp {
    /// Never called.
    pub(crate) fn hang_up(&self) {}
}

impl Guard {
    /// Never called.
    pub(crate) fn hang_up_handle(&self) -> HangUp {
        match *self {}
    }

    /// Never called.
    pub(crate) fn peer_process(&self) -> Option<ProcessId> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn peek(&self) -> io::Result<Peek> {
        match *self {}
    }
}
