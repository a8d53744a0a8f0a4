//! Frames between processes, and typed senders and receivers of messages.
//!
//! Called by the parent's and the child's crate. A transport implements two small traits,
//! [`FrameSender`] and [`FrameReceiver`]; its users see the [`Sender`] and [`Receiver`] of
//! messages. [`ipc_channel`] is the transport for trusted children, [`inherited`] for untrusted
//! ones, [`in_process`] for tests. [`listener`] chooses between the first two, and `ready` waits
//! for many channels at once (Linux).
//!
//! Invariants, which one test suite checks for all three transports: messages stay in order;
//! messages that were sent before the sender ended still arrive, and after them
//! [`TransportError::Disconnected`]; any input from a peer is at worst an error.
//!
//! [`joining`] is the way of a process that joins a session by itself: it ends in a channel of
//! [`inherited`].
//!
//! The files import only from files above them in this list: this one, `accepted` and
//! [`stale_sockets`], a transport, [`listener`], [`joining`].

mod accepted;
pub mod in_process;
pub mod inherited;
pub mod ipc_channel;
pub mod joining;
pub mod listener;
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub mod ready;
pub mod stale_sockets;

use std::fmt;
use std::marker::PhantomData;
#[cfg(unix)]
use std::os::fd::BorrowedFd;

use crate::codec::{self, Message, ProtocolError};
use crate::message::{ToChild, ToParent};
use profiler_sys::DescriptorLost;

/// The reason why a send or receive failed. The channel is unusable afterwards, except after
/// [`TransportError::Protocol`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The other side is gone.
    #[error("the other side is gone")]
    Disconnected,
    /// The wait for the child was abandoned.
    #[error("waiting for the child was given up")]
    Abandoned,
    /// The other side sent data that none of our processes sends.
    #[error("the other side sent {0}")]
    PeerMisbehaved(&'static str),
    /// A process without the right token connected.
    #[error("the process that connected does not know this child's token")]
    WrongToken,
    /// The system would truncate the socket's path.
    #[error("{length} bytes are too long for the path of a socket; use a shorter TMPDIR")]
    NameTooLong {
        /// The path's length.
        length: usize,
    },
    /// This process is a fork of the one that owns the channel.
    #[error("a fork may not use the channel of its parent")]
    Forked,
    /// The other side does not read, and unread messages fill the channel.
    #[error("the other side does not read")]
    Full,
    /// The operation is not supported on this system or by this transport.
    #[error("not supported on this system or by this transport; untrusted children require Linux")]
    Unavailable,
    /// A frame is not a message.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The program has closed this end of the channel.
    #[error(transparent)]
    DescriptorLost(#[from] DescriptorLost),
    /// The system's own error.
    #[error("channel: {0}")]
    Io(#[source] std::io::Error),
}

impl From<std::io::Error> for TransportError {
    /// Distinguishes the errors that mean that the peer is gone from all others.
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound};
        if DescriptorLost::is_in(&error) {
            return Self::DescriptorLost(DescriptorLost);
        }
        match error.kind() {
            BrokenPipe | ConnectionRefused | ConnectionReset | NotFound => Self::Disconnected,
            _ => Self::Io(error),
        }
    }
}

impl TransportError {
    /// Whether the channel may still be used.
    pub const fn is_recoverable(&self) -> bool {
        matches!(self, Self::Protocol(_))
    }
}

/// Sends frames, in order, to one peer. May block when the peer does not read ([`inherited`] never
/// does in the parent), so only a control thread owns one, and requests coalesce.
pub trait FrameSender: Send {
    /// Sends one frame of at most [`crate::limits::MAX_FRAME_BYTES`].
    ///
    /// # Errors
    /// [`TransportError::Disconnected`] when the peer is gone, [`TransportError::Protocol`] for a
    /// frame that is too large, [`TransportError::Full`] where it does not wait.
    fn send(&mut self, frame: &[u8]) -> Result<(), TransportError>;

    /// In a child: ends the channel, so the thread that waits for the parent's frames gets an
    /// error. Does nothing where the system cannot do that.
    fn hang_up(&self) {}
}

/// Receives frames from one peer.
pub trait FrameReceiver: Send {
    /// Waits for the next frame.
    ///
    /// # Errors
    /// [`TransportError::Disconnected`] when the peer is gone and all its frames were received.
    fn recv(&mut self) -> Result<Vec<u8>, TransportError>;

    /// Receives the next frame. Returns `None` if none is queued. Never blocks.
    ///
    /// # Errors
    /// As [`Self::recv`]; [`TransportError::Unavailable`] if the transport does not support it.
    fn try_recv(&mut self) -> Result<Option<Vec<u8>>, TransportError> {
        Err(TransportError::Unavailable)
    }

    /// Returns the socket, which becomes readable when the peer sends a frame or closes the
    /// channel.
    ///
    /// # Errors
    /// [`TransportError::Unavailable`] where there is no such socket,
    /// [`TransportError::DescriptorLost`].
    #[cfg(unix)]
    fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        Err(TransportError::Unavailable)
    }
}

/// Sends messages of one kind to one peer.
pub struct Sender<M> {
    frames: Box<dyn FrameSender>,
    messages: PhantomData<fn(M)>,
}

/// Receives messages of one kind from one peer.
pub struct Receiver<M> {
    frames: Box<dyn FrameReceiver>,
    messages: PhantomData<fn() -> M>,
}

impl<M: Message> Sender<M> {
    /// Sends over `frames`.
    pub fn new(frames: impl FrameSender + 'static) -> Self {
        Self {
            frames: Box::new(frames),
            messages: PhantomData,
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// All of [`TransportError`]; after [`TransportError::Protocol`] nothing was sent.
    pub fn send(&mut self, message: &M) -> Result<(), TransportError> {
        self.frames.send(&codec::encode(message)?)
    }

    /// In a child: ends the channel, and the wait of its receiver.
    pub fn hang_up(&self) {
        self.frames.hang_up();
    }
}

impl<M: Message> Receiver<M> {
    /// Receives from `frames`.
    pub fn new(frames: impl FrameReceiver + 'static) -> Self {
        Self {
            frames: Box::new(frames),
            messages: PhantomData,
        }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// All of [`TransportError`]; after [`TransportError::Protocol`] one frame was consumed.
    pub fn recv(&mut self) -> Result<M, TransportError> {
        Ok(codec::decode(&self.frames.recv()?)?)
    }

    /// Receives the next message. Returns `None` if none is queued. Never blocks.
    ///
    /// # Errors
    /// As [`Self::recv`]; [`TransportError::Unavailable`] if the transport does not support it.
    pub fn try_recv(&mut self) -> Result<Option<M>, TransportError> {
        self.frames
            .try_recv()?
            .map(|frame| Ok(codec::decode(&frame)?))
            .transpose()
    }

    /// Returns the socket, which becomes readable when the peer sends a message or closes the
    /// channel.
    ///
    /// # Errors
    /// [`TransportError::Unavailable`] where there is no such socket,
    /// [`TransportError::DescriptorLost`].
    #[cfg(unix)]
    pub fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        self.frames.socket()
    }
}

impl<M> fmt::Debug for Sender<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<M> fmt::Debug for Receiver<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// The parent's ends of the channels to one child.
#[derive(Debug)]
pub struct ParentEnds {
    /// To the child.
    pub sender: Sender<ToChild>,
    /// From the child.
    pub receiver: Receiver<ToParent>,
}

/// The child's ends of the channels to its parent.
#[derive(Debug)]
pub struct ChildEnds {
    /// To the parent.
    pub sender: Sender<ToParent>,
    /// From the parent.
    pub receiver: Receiver<ToChild>,
}

/// For implementations: refuses a frame that is too large, in either direction.
fn check_frame(frame: &[u8]) -> Result<(), TransportError> {
    Ok(codec::check_frame(frame)?)
}

/// For implementations: refuses a fork, which shares the socket and must not use it.
fn check_owner(owner: u32) -> Result<(), TransportError> {
    if std::process::id() == owner {
        Ok(())
    } else {
        Err(TransportError::Forked)
    }
}

#[cfg(test)]
mod tests;
