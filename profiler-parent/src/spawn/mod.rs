//! Starts a child that records, and passes its resources to it.
//!
//! Called by the session. The child inherits its files, under numbers that its environment names.
//! No other process inherits them: they are made inheritable between fork and exec, only in the
//! child, so a process that another thread starts at the same time does not get them. [`watch`]
//! reports when the child ends.

pub(crate) mod watch;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command};

use ipc_protocol::environment::{ChildEnvironment, InheritedHandle, Server, Token};
use ipc_protocol::transport::listener::Endpoint;

use crate::sys;

/// The reason why a child could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ChildStartError {
    /// A file could not be prepared for the child.
    #[error("cannot pass the {what} to the child: {source}")]
    HandOver {
        /// Which file.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {program:?}: {source}")]
    Start {
        /// The program.
        program: std::ffi::OsString,
        /// The system's error.
        source: io::Error,
    },
}

/// A file for the child.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChildFile<'a> {
    /// Inherited. Linux only.
    Open(&'a File),
    /// Opened by the child, under this path.
    At(&'a Path),
}

/// The resources of a child.
#[derive(Clone, Debug)]
pub(crate) struct ChildResources<'a> {
    /// The memory to record into.
    pub(crate) pool: ChildFile<'a>,
    /// The file to write profiles to; an untrusted child gets none.
    pub(crate) part_file: Option<ChildFile<'a>>,
    /// The token that authenticates it.
    pub(crate) token: Token,
    /// The address where the parent listens for the child.
    pub(crate) server: &'a Endpoint,
}

/// Lets `command` pass these resources to the child.
///
/// # Errors
/// [`ChildStartError::HandOver`]. The command can be started without resources then, once
/// [`ipc_protocol::environment::VARIABLE`] is removed from it.
pub(crate) fn prepare(
    command: &mut Command,
    resources: &ChildResources<'_>,
) -> Result<(), ChildStartError> {
    let mut inherited = Vec::new();
    let environment = ChildEnvironment {
        pool: hand_over("pool", resources.pool, &mut inherited)?,
        part_file: resources
            .part_file
            .map(|part_file| hand_over("part file", part_file, &mut inherited))
            .transpose()?,
        token: resources.token.clone(),
        server: match resources.server {
            Endpoint::Named(name) => Server::Named(name.clone()),
            Endpoint::Inherited(socket) => Server::Inherited(hand_over(
                "socket",
                ChildFile::Open(socket),
                &mut inherited,
            )?),
        },
    };
    environment.put_into(command);
    sys::inherit(command, inherited).map_err(|source| ChildStartError::HandOver {
        what: "files",
        source,
    })
}

/// Starts the child of a command.
///
/// # Errors
/// [`ChildStartError::Start`]; no process runs then.
pub(crate) fn start(mut command: Command) -> Result<Child, ChildStartError> {
    command.spawn().map_err(|source| ChildStartError::Start {
        program: command.get_program().into(),
        source,
    })
}

fn hand_over(
    what: &'static str,
    file: ChildFile<'_>,
    inherited: &mut Vec<File>,
) -> Result<InheritedHandle, ChildStartError> {
    let failed = |source| ChildStartError::HandOver { what, source };
    match file {
        ChildFile::At(path) => Ok(InheritedHandle::Path(path.to_owned())),
        ChildFile::Open(file) => {
            let copy = sys::copy_for_child(file).map_err(failed)?;
            let handover = InheritedHandle::of(&copy).map_err(failed)?;
            inherited.push(copy);
            Ok(handover)
        }
    }
}

#[cfg(test)]
mod tests;
