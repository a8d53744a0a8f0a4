//! On all other systems: ipc-channel listens and accepts, and the headers of received packets are
//! trusted.

use std::cell::Cell;
use std::fmt::Debug;
use std::io;
#[cfg(unix)]
use std::os::fd::BorrowedFd;

use ipc_channel::ipc::{IpcOneShotServer, IpcReceiver};
use profiler_core::ids::ProcessId;
#[cfg(unix)]
use profiler_sys::DescriptorLost;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Opened, Peek, own_channel};
use crate::sys::ReceiveMode;

/// ipc-channel's server.
pub(crate) struct ListeningSocket<T> {
    server: Cell<Option<IpcOneShotServer<T>>>,
    name: String,
}

/// A connection, and its first packet.
pub(crate) struct Connection<T> {
    packets: IpcReceiver<T>,
    first: T,
}

impl<T: Serialize + DeserializeOwned> ListeningSocket<T> {
    /// Listens under a new name.
    pub(crate) fn new() -> io::Result<Self> {
        let (server, name) = IpcOneShotServer::new()?;
        Ok(Self {
            server: Cell::new(Some(server)),
            name,
        })
    }

    /// The name to connect to.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns a handle without effect: here the caller ends the wait by sending a message itself.
    pub(crate) fn hang_up_handle(&self) -> HangUp {
        HangUp
    }

    /// Returns an error: ipc-channel does not expose its socket.
    #[cfg(unix)]
    pub(crate) fn socket(&self) -> io::Result<BorrowedFd<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Waits for the first packet of the first connection, in both modes. Later calls return
    /// `NotConnected`.
    pub(crate) fn accept(&self, _: ReceiveMode) -> io::Result<Option<Connection<T>>> {
        let server = self.server.take().ok_or(io::ErrorKind::NotConnected)?;
        let (packets, first) = server.accept().map_err(io::Error::other)?;
        Ok(Some(Connection { packets, first }))
    }
}

impl<T: Serialize + DeserializeOwned + Debug> Connection<T> {
    /// Returns `None`.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        None
    }

    /// The receiver of this connection, and the first packet.
    pub(crate) fn open(self) -> io::Result<Opened<T>> {
        Ok(Opened {
            packets: own_channel(self.packets),
            first: Some(self.first),
            guard: None,
        })
    }
}

/// Checks packets before they are received; never created here.
#[derive(Debug)]
pub(crate) enum Guard {}

/// Has no effect here.
#[derive(Clone, Debug)]
pub(crate) struct HangUp;

impl HangUp {
    /// Does nothing.
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
    #[cfg(unix)]
    pub(crate) fn socket(&self) -> Result<BorrowedFd<'_>, DescriptorLost> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn peek(&self, _: ReceiveMode) -> io::Result<Option<Peek>> {
        match *self {}
    }
}
