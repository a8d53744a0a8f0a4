//! Waits for a child over the transport that it was given; also the child's side of the connection.
//!
//! The parent's spawn code creates one listener per child: [`Listener::named`] for a trusted child,
//! [`Listener::inherited`] for an untrusted one. Invariant: an accepted process has the child's
//! token and this version of the protocol.

use std::fs::File;
#[cfg(unix)]
use std::os::fd::BorrowedFd;

use profiler_core::ids::ProcessId;

pub use super::accepted::{Accepted, TryAccept};
use super::{ChildEnds, TransportError, inherited, ipc_channel};
use crate::environment::{EnvironmentError, Server, Token};
use crate::message::Hello;

/// Waits for the `Hello` of one child.
#[derive(Debug)]
pub enum Listener {
    /// Over ipc-channel.
    Named(Box<ipc_channel::Listener>),
    /// Over an inherited socket.
    Inherited(inherited::Listener),
}

/// Ends the wait of a [`Listener`], or the channel, from any thread.
#[derive(Clone, Debug)]
pub enum CancelHandle {
    /// Over ipc-channel.
    Named(ipc_channel::CancelHandle),
    /// Over an inherited socket.
    Inherited(inherited::CancelHandle),
}

impl Listener {
    /// Creates a listener for a trusted child, and the endpoint to give to that child.
    ///
    /// # Errors
    /// As [`ipc_channel::Listener::new`].
    pub fn named() -> Result<(Self, Endpoint), TransportError> {
        let listener = ipc_channel::Listener::new()?;
        let endpoint = Endpoint::Named(listener.name().to_owned());
        Ok((Self::Named(Box::new(listener)), endpoint))
    }

    /// Creates a listener for an untrusted child, and the endpoint to give to that child and to no
    /// other process.
    ///
    /// # Errors
    /// As [`inherited::Listener::new`].
    pub fn inherited() -> Result<(Self, Endpoint), TransportError> {
        let (listener, theirs) = inherited::Listener::new()?;
        Ok((Self::Inherited(listener), Endpoint::Inherited(theirs)))
    }

    /// Returns a handle that ends [`Self::accept`], or later the channel.
    pub fn cancel_handle(&self) -> CancelHandle {
        match self {
            Self::Named(listener) => CancelHandle::Named(listener.cancel_handle()),
            Self::Inherited(listener) => CancelHandle::Inherited(listener.cancel_handle()),
        }
    }

    /// Waits for the child, which runs as process `child`.
    ///
    /// # Errors
    /// As [`ipc_channel::Listener::accept`] and [`inherited::Listener::accept`].
    pub fn accept(self, expected: &Token, child: ProcessId) -> Result<Accepted, TransportError> {
        match self {
            Self::Named(listener) => listener.accept(expected),
            Self::Inherited(listener) => listener.accept(expected, child),
        }
    }

    /// Accepts the child, which runs as process `child`, if that is possible without blocking.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn try_accept(
        self,
        expected: &Token,
        child: ProcessId,
    ) -> Result<TryAccept<Self>, TransportError> {
        Ok(match self {
            Self::Named(listener) => listener
                .try_accept(expected)?
                .map(|named| Self::Named(Box::new(named))),
            Self::Inherited(listener) => listener.try_accept(expected, child)?.map(Self::Inherited),
        })
    }

    /// Returns the socket, which becomes readable when [`Self::try_accept`] can make progress.
    ///
    /// # Errors
    /// [`TransportError::DescriptorLost`]; [`TransportError::Unavailable`] on systems other than
    /// Linux.
    #[cfg(unix)]
    pub fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        match self {
            Self::Named(listener) => listener.socket(),
            Self::Inherited(listener) => listener.socket(),
        }
    }
}

impl CancelHandle {
    /// Makes [`Listener::accept`] return. Has no effect after it has returned.
    pub fn abandon(&self) {
        match self {
            Self::Named(abandon) => abandon.abandon(),
            Self::Inherited(abandon) => abandon.abandon(),
        }
    }

    /// Ends the channel, even if other processes hold the child's end of it.
    pub fn hang_up(&self) {
        match self {
            Self::Named(abandon) => abandon.hang_up(),
            Self::Inherited(abandon) => abandon.hang_up(),
        }
    }
}

/// The endpoint with which a child connects to its parent.
#[derive(Debug)]
pub enum Endpoint {
    /// A name to connect to.
    Named(String),
    /// A connected socket.
    Inherited(File),
}

impl Endpoint {
    /// In the child: opens the endpoint that the environment names.
    ///
    /// # Errors
    /// [`EnvironmentError::NotHanded`] when this process does not have it.
    pub fn open(server: &Server) -> Result<Self, EnvironmentError> {
        Ok(match server {
            Server::Named(name) => Self::Named(name.clone()),
            Server::Inherited(socket) => Self::Inherited(socket.open()?),
        })
    }

    /// In the child: connects to the parent and sends `hello`.
    ///
    /// # Errors
    /// As [`ipc_channel::connect`] and [`inherited::connect`].
    pub fn connect(self, hello: Hello) -> Result<ChildEnds, TransportError> {
        match self {
            Self::Named(name) => ipc_channel::connect(&name, hello),
            Self::Inherited(socket) => inherited::connect(socket, hello),
        }
    }
}
