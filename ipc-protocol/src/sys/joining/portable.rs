//! On all other systems: no process can join a session by itself.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use profiler_core::ids::{ProcessId, ProcessStart, UserId};
use profiler_sys::{DescriptorLost, OwnDescriptor, OwnFile};

use super::{Deadline, Peer};

/// Never created here.
#[derive(Debug)]
pub(crate) enum SessionSocket {}

impl SessionSocket {
    /// Not supported.
    pub(crate) fn bind(_: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub(crate) fn renew(&mut self) -> io::Result<()> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn socket(&self) -> Result<BorrowedFd<'_>, DescriptorLost> {
        match *self {}
    }
}

/// Never created here.
#[derive(Debug)]
pub(crate) enum Asker {}

impl Asker {
    /// Not supported.
    pub(crate) fn connect(_: &Path, _: &Deadline) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub(crate) fn peer(&self) -> io::Result<Peer> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn send(&self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn receive(
        &self,
        _: &mut [u8],
        _: &Deadline,
    ) -> io::Result<Option<(usize, Option<OwnFile>)>> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn hang_up(&self) {
        match *self {}
    }

    /// Never called.
    pub(crate) fn into_channel(self) -> io::Result<OwnFile> {
        match self {}
    }
}

/// Never called.
pub(crate) fn peer_of(_: BorrowedFd<'_>) -> io::Result<(Peer, Option<OwnedFd>)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Never called.
pub(crate) fn open_process(_: ProcessId, _: ProcessStart) -> io::Result<OwnDescriptor<OwnedFd>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Never called.
pub(crate) fn own_user() -> UserId {
    UserId::new(0)
}
