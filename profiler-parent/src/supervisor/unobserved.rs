//! Observed programs on systems where no program can be observed: each call is refused.
//!
//! Called like the functions of the same names elsewhere, so that an application with the feature
//! `observed` compiles on every Unix.

use std::ffi::OsString;
use std::io;
use std::process::Command;

use super::Supervisor;
use super::profiled_child::ProfiledChild;
use super::spawn::SpawnError;

impl Supervisor {
    /// # Errors
    /// Always `Unsupported`.
    pub(crate) fn observed_variable(&self) -> io::Result<(&'static str, OsString)> {
        Err(unsupported())
    }

    /// # Errors
    /// Always `Unsupported`; no process runs.
    pub(crate) fn spawn_observed(
        &self,
        _name: &str,
        _command: Command,
    ) -> Result<ProfiledChild, SpawnError> {
        Err(unsupported().into())
    }
}

fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "programs cannot be observed on this system",
    )
}
