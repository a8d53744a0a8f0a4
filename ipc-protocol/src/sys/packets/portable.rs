//! On all other systems: there are no packet sockets that a child could inherit.

use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

#[cfg(unix)]
use profiler_sys::DescriptorLost;
use profiler_sys::OwnFile;

use super::{Closer, Packet};
use crate::sys::ReceiveMode;

/// Never created here.
#[derive(Debug)]
pub(crate) enum PacketSocket {}

impl PacketSocket {
    /// Not supported.
    pub(crate) fn pair() -> io::Result<(Self, File)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Not supported.
    pub(crate) fn accepted(_: OwnedFd, _: Arc<Closer>) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub(crate) fn send_with(&self, _: &[u8], _: &File) -> io::Result<()> {
        match *self {}
    }

    /// Not supported.
    pub(crate) fn given(_: OwnFile) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Never called.
    pub(crate) fn send(&self, _: &[u8], _: bool) -> io::Result<()> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn receive(&self, _: &mut [u8], _: ReceiveMode) -> io::Result<Option<Packet>> {
        match *self {}
    }

    /// Never called.
    #[cfg(unix)]
    pub(crate) fn socket(&self) -> Result<BorrowedFd<'_>, DescriptorLost> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn is_ours(&self) -> bool {
        match *self {}
    }

    /// Never called.
    pub(crate) fn hang_up(&self) {
        match *self {}
    }
}
