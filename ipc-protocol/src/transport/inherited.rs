//! The transport to an untrusted child: one socket, inherited.
//!
//! The parent creates a [`Listener`] per child and passes the other end to the child at spawn, by
//! descriptor number; the child calls [`connect`]. Linux only; elsewhere [`Listener::new`] returns
//! [`TransportError::Unavailable`].
//!
//! ```text
//! parent                       one packet = one frame, at most 64 KiB
//!   PacketSocket ◀─────────── SOCK_SEQPACKET, no name ───────────▶ PacketSocket   child
//!   never waits to send                                            inherited, so no socket(), connect()
//!   checks who sent each packet                                    or open() in the child's sandbox
//! ```
//!
//! A process that joins a session by itself ([`super::joining`]) uses the same transport: it has
//! connected its end of the socket, instead of inheriting it.
//!
//! A hostile child can only lose its own channel ([`TransportError::PeerMisbehaved`]); other
//! channels are not affected. The defences:
//!
//! - *A packet of any content*: it is received into an existing buffer. A packet that is too large
//!   or has attached descriptors ends the channel and is not received. The kernel closes attached
//!   descriptors when the channel is closed. This may take long, so a separate thread closes the
//!   channel.
//! - *Packets of another process*: every packet must come from the spawned process itself, as the
//!   kernel reports it. Packets of its forks, of other programs to which it gave the socket, and of
//!   any other process that holds the socket are refused. The user is not compared: a child may
//!   drop its rights. A child that executes another program stays the same process; if it leaves
//!   the socket to that program, the program may use it. Only a process with `CAP_SYS_ADMIN` can
//!   make the kernel report another number, and such a child could end the parent anyway.
//! - *A child that does not read*: the parent's `send` does not wait. The supervisor has few
//!   requests outstanding, and the socket has room for all of them. If the socket is full
//!   nevertheless, the channel ends with [`TransportError::Full`]. The send buffer belongs to the
//!   sender's end, so the child cannot shrink the parent's send buffer.
//! - *A channel that does not end*, or that a fork holds open: [`CancelHandle::hang_up`] ends it.
//!
//! A child can set options on its own end. With a larger send buffer (up to `net.core.wmem_max`,
//! more with `CAP_NET_ADMIN`), more of its own packets wait in the kernel; their memory is charged
//! to the child. With a filter or a shutdown, the child no longer receives, which harms only the
//! child.

use std::fs::File;
use std::io;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use profiler_core::ids::ProcessId;
use profiler_sys::{DescriptorLost, OwnFile};

use super::accepted::{Accepted, TryAccept, check_hello};
use super::{
    ChildEnds, FrameReceiver, FrameSender, ParentEnds, Receiver, Sender, TransportError,
    check_frame, check_owner,
};
use crate::environment::Token;
use crate::limits::MAX_FRAME_BYTES;
use crate::message::{Hello, ToParent};
use crate::sys::ReceiveMode;
use crate::sys::packets::{Packet, PacketSocket};

/// Waits for the `Hello` of one child.
#[derive(Debug)]
pub struct Listener {
    socket: Arc<PacketSocket>,
    waiting: Arc<Waiting>,
}

/// State shared by a [`Listener`] and its [`CancelHandle`] handles.
#[derive(Debug, Default)]
struct Waiting {
    abandoned: AtomicBool,
    over: AtomicBool,
}

/// Ends the wait of a [`Listener`], or the channel, from any thread. Holds no socket open.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    socket: Weak<PacketSocket>,
    waiting: Arc<Waiting>,
}

impl Listener {
    /// Creates a channel; the file is the child's end of it.
    ///
    /// # Errors
    /// [`TransportError::Unavailable`] where children cannot inherit a socket,
    /// [`TransportError::Io`].
    pub fn new() -> Result<(Self, File), TransportError> {
        let (socket, theirs) = PacketSocket::pair().map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => TransportError::Unavailable,
            _ => TransportError::Io(error),
        })?;
        Ok((
            Self {
                socket: Arc::new(socket),
                waiting: Arc::default(),
            },
            theirs,
        ))
    }

    /// Waits for the `Hello` of a process that is at the other end of this socket.
    pub(super) fn of(socket: Arc<PacketSocket>) -> Self {
        Self {
            socket,
            waiting: Arc::default(),
        }
    }

    /// Returns a handle that ends [`Self::accept`], or later the channel.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle {
            socket: Arc::downgrade(&self.socket),
            waiting: Arc::clone(&self.waiting),
        }
    }

    /// Waits for the `Hello` of `child`. Only the child may hold the other end, so the caller must
    /// first close its own copy.
    ///
    /// # Errors
    /// [`TransportError::Abandoned`], [`TransportError::Disconnected`] when the child ends without
    /// a message, [`TransportError::WrongToken`], and [`TransportError::Protocol`] or
    /// [`TransportError::PeerMisbehaved`] when its first packet is not a valid `Hello`.
    pub fn accept(self, expected: &Token, child: ProcessId) -> Result<Accepted, TransportError> {
        match self.advance(expected, child, ReceiveMode::Wait)? {
            TryAccept::Accepted(accepted) => Ok(accepted),
            TryAccept::Waiting(_) => Err(TransportError::Disconnected),
        }
    }

    /// Like [`Self::accept`], but returns [`TryAccept::Waiting`] instead of blocking.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn try_accept(
        self,
        expected: &Token,
        child: ProcessId,
    ) -> Result<TryAccept<Self>, TransportError> {
        self.advance(expected, child, ReceiveMode::Try)
    }

    /// Returns the socket, which becomes readable when the child sends a packet or closes the
    /// channel.
    ///
    /// # Errors
    /// [`TransportError::DescriptorLost`].
    #[cfg(unix)]
    pub fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        Ok(self.socket.socket()?)
    }

    fn advance(
        self,
        expected: &Token,
        child: ProcessId,
        mode: ReceiveMode,
    ) -> Result<TryAccept<Self>, TransportError> {
        let mut receiver = PacketReceiver::new(Arc::clone(&self.socket), Some(child));
        let first = receiver.receive_or_end(mode);
        if matches!(first, Ok(None)) {
            return Ok(TryAccept::Waiting(self));
        }
        self.waiting.over.store(true, Ordering::Release);
        let frame = match first {
            Err(TransportError::Disconnected) if self.waiting.abandoned.load(Ordering::Acquire) => {
                return Err(TransportError::Abandoned);
            }
            first => first?.unwrap_or_default(),
        };
        let hello = check_hello(&frame, expected)?;
        if hello.pid != child {
            return Err(TransportError::PeerMisbehaved(
                "the hello of another process",
            ));
        }
        let sender = PacketSender::new(self.socket, false, Arc::clone(&receiver.full));
        let ends = ParentEnds {
            sender: Sender::new(sender),
            receiver: Receiver::new(receiver),
        };
        Ok(TryAccept::Accepted(Accepted { hello, ends }))
    }
}

impl CancelHandle {
    /// Makes [`Listener::accept`] return, now or when it is called. A child that has sent `Hello`
    /// before is still accepted, and its messages can be received. Never waits; has no effect after
    /// `accept` has returned.
    pub fn abandon(&self) {
        self.waiting.abandoned.store(true, Ordering::Release);
        if !self.waiting.over.load(Ordering::Acquire) {
            self.hang_up();
        }
    }

    /// Ends the channel, even if other processes hold the child's end; sent messages can still be
    /// received.
    pub fn hang_up(&self) {
        if let Some(socket) = self.socket.upgrade() {
            socket.hang_up();
        }
    }
}

/// In the child: sends `hello` through the inherited socket.
///
/// # Errors
/// [`TransportError::Disconnected`] when the parent is gone, [`TransportError::Protocol`] for a
/// `hello` beyond its limits, [`TransportError::Unavailable`].
pub fn connect(socket: impl Into<OwnFile>, hello: Hello) -> Result<ChildEnds, TransportError> {
    let socket = PacketSocket::given(socket.into()).map_err(|_| TransportError::Unavailable)?;
    let receiver = PacketReceiver::new(Arc::new(socket), None);
    let sender = PacketSender::new(
        Arc::clone(&receiver.socket),
        true,
        Arc::clone(&receiver.full),
    );
    let mut sender = Sender::new(sender);
    sender.send(&ToParent::Hello(hello))?;
    Ok(ChildEnds {
        sender,
        receiver: Receiver::new(receiver),
    })
}

/// Sends frames as packets.
#[derive(Debug)]
struct PacketSender {
    socket: Arc<PacketSocket>,
    owner: u32,
    /// Whether to wait for room, as a child does.
    waits: bool,
    /// Set when the socket was full, for this end's receiver.
    full: Arc<AtomicBool>,
}

impl PacketSender {
    fn new(socket: Arc<PacketSocket>, waits: bool, full: Arc<AtomicBool>) -> Self {
        Self {
            socket,
            owner: std::process::id(),
            waits,
            full,
        }
    }

    /// Ends the channel: a message was not sent, so no later message may be sent.
    fn give_up(&self) -> TransportError {
        self.full.store(true, Ordering::Release);
        self.socket.hang_up();
        TransportError::Full
    }
}

impl FrameSender for PacketSender {
    fn send(&mut self, frame: &[u8]) -> Result<(), TransportError> {
        check_frame(frame)?;
        check_owner(self.owner)?;
        self.socket
            .send(frame, self.waits)
            .map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => self.give_up(),
                _ => error.into(),
            })
    }

    fn hang_up(&self) {
        self.socket.hang_up();
    }
}

/// Receives packets, each a frame.
#[derive(Debug)]
struct PacketReceiver {
    socket: Arc<PacketSocket>,
    owner: u32,
    /// The only process whose packets are accepted; `None` if packets of any process are accepted.
    peer: Option<ProcessId>,
    room: Box<[u8]>,
    /// Set by this end's sender when the socket was full.
    full: Arc<AtomicBool>,
    /// Set by the first error; nothing is received afterwards.
    ended: bool,
}

impl PacketReceiver {
    fn new(socket: Arc<PacketSocket>, peer: Option<ProcessId>) -> Self {
        let room = vec![0; MAX_FRAME_BYTES].into_boxed_slice();
        Self {
            socket,
            owner: std::process::id(),
            peer,
            room,
            full: Arc::default(),
            ended: false,
        }
    }

    /// Returns `None` if no packet is queued and `mode` is `Try`.
    fn receive(&mut self, mode: ReceiveMode) -> Result<Option<Vec<u8>>, TransportError> {
        let Some(packet) = self.socket.receive(&mut self.room, mode)? else {
            return Ok(None);
        };
        let length = match packet {
            Packet::Closed if self.full.load(Ordering::Acquire) => {
                return Err(TransportError::Full);
            }
            Packet::Closed => return Err(TransportError::Disconnected),
            Packet::TooLarge => return Err(TransportError::PeerMisbehaved("a packet too large")),
            Packet::Attached => {
                return Err(TransportError::PeerMisbehaved("a packet of another kind"));
            }
            Packet::Whole { sender, .. } if self.peer.is_some_and(|peer| peer.get() != sender) => {
                return Err(TransportError::PeerMisbehaved(
                    "a packet of another process",
                ));
            }
            Packet::Whole { length, .. } => length,
        };
        Ok(Some(self.room.get(..length).unwrap_or_default().to_vec()))
    }

    fn receive_or_end(&mut self, mode: ReceiveMode) -> Result<Option<Vec<u8>>, TransportError> {
        check_owner(self.owner)?;
        if self.ended {
            return Err(TransportError::Disconnected);
        }
        let received = self.receive(mode);
        // After the loss of the descriptor a received message is ignored: no answer is possible,
        // and the peer may already have noticed.
        let received = if self.socket.is_ours() {
            received
        } else {
            Err(DescriptorLost.into())
        };
        self.ended = received.is_err();
        if self.ended {
            self.socket.hang_up(); // later packets of the other side will not be read
        }
        received
    }
}

impl FrameReceiver for PacketReceiver {
    fn recv(&mut self) -> Result<Vec<u8>, TransportError> {
        self.receive_or_end(ReceiveMode::Wait)?
            .ok_or(TransportError::Disconnected)
    }

    fn try_recv(&mut self) -> Result<Option<Vec<u8>>, TransportError> {
        self.receive_or_end(ReceiveMode::Try)
    }

    #[cfg(unix)]
    fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        Ok(self.socket.socket()?)
    }
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests;
