//! Signals on systems that have none: Ctrl-C ends the command.

use std::io;
use std::time::Duration;

use super::Caught;

/// Ends this process.
pub(super) fn die_of(signal: i32) -> ! {
    std::process::exit(128 + signal)
}

/// Does nothing.
pub(super) fn dump_no_core() {}

/// Signals are not caught on this system.
#[derive(Debug)]
pub(crate) struct Signals;

impl Signals {
    /// Catches nothing.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self)
    }

    /// Catches nothing.
    pub(crate) fn catch_all() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never returns.
    pub(crate) fn next(&mut self) -> io::Result<Caught> {
        loop {
            std::thread::park();
        }
    }

    /// None.
    pub(crate) fn next_within(&mut self, _: Duration) -> io::Result<Option<Caught>> {
        Ok(None)
    }
}
