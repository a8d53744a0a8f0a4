//! A child's end of a control channel as a bare socket, which can send what no real child sends.
//!
//! Used by the test `tricks`, which is both ends in one process, and by the helper process when it
//! sends false messages. It knows how ipc-channel lays out its packets.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::ensure;
use ipc_protocol::codec;
use ipc_protocol::environment::{Server, Token};
use ipc_protocol::message::{Hello, PROTOCOL_VERSION, ToParent};
use profiler_core::ids::{ProcessId, ProcessStart};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

/// The highest number of descriptors that can be attached to one packet here.
const MAX_ATTACHED: usize = 128;

/// The child's end.
#[derive(Debug)]
pub struct Peer {
    /// The bare socket.
    pub socket: OwnedFd,
    /// For ipc-channel: the socket that the parent gets for its answers, and the socket where they
    /// arrive.
    answers: Option<(OwnedFd, OwnedFd)>,
}

/// Returns a valid hello of this process.
pub fn hello(token: &Token) -> Hello {
    Hello {
        version: PROTOCOL_VERSION,
        token: token.clone(),
        pid: ProcessId::new(std::process::id()),
        start: ProcessStart::new(0),
        name: "peer".to_owned(),
    }
}

impl Peer {
    /// Connects without sending a message.
    ///
    /// # Errors
    /// When there is no listener, or the inherited socket cannot be opened.
    pub fn open(server: &Server) -> anyhow::Result<Self> {
        match server {
            Server::Inherited(socket) => Ok(Self {
                socket: socket.open()?.into(),
                answers: None,
            }),
            Server::Named(name) => Self::connect(name),
        }
    }

    /// Connects to a listener of ipc-channel without sending a message.
    ///
    /// # Errors
    /// When there is no listener.
    pub fn connect(name: &str) -> anyhow::Result<Self> {
        let family = AddressFamily::UNIX;
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, kind, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(name)?)?;
        let answers = rustix::net::socketpair(family, kind, flags, None)?;
        Ok(Self {
            socket,
            answers: Some(answers),
        })
    }

    /// Uses the end of an inherited channel.
    pub fn inherited(socket: std::fs::File) -> Self {
        Self {
            socket: socket.into(),
            answers: None,
        }
    }

    /// Sends the first hello as a child does.
    ///
    /// # Errors
    /// When the parent is gone.
    pub fn say_hello(&self, hello: Hello) -> anyhow::Result<()> {
        let frame = codec::encode(&ToParent::Hello(hello))?;
        match &self.answers {
            None => self.send(&frame, &[]),
            // Packet::Hello { frame, answers: the first descriptor }
            Some((answers, _)) => self.send(&wrapped(1, &frame, &[0])?, &[answers.as_fd()]),
        }
    }

    /// Sends a message as a child does.
    ///
    /// # Errors
    /// When the parent is gone.
    pub fn say(&self, message: &ToParent) -> anyhow::Result<()> {
        self.say_frame(&codec::encode(message)?)
    }

    /// Sends a frame with any content as a child does.
    ///
    /// # Errors
    /// When the parent is gone.
    pub fn say_frame(&self, frame: &[u8]) -> anyhow::Result<()> {
        match &self.answers {
            None => self.send(frame, &[]),
            Some(_) => self.send(&wrapped(0, frame, &[])?, &[]),
        }
    }

    /// Sends a packet with any bytes and any descriptors.
    ///
    /// # Errors
    /// When there are too many descriptors, or the system cannot send the packet.
    pub fn send(&self, bytes: &[u8], attached: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_ATTACHED))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = attached.is_empty() || control.push(SendAncillaryMessage::ScmRights(attached));
        ensure!(fits, "more than {MAX_ATTACHED} descriptors");
        let flags = SendFlags::EOR | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }
}

/// Returns a packet of ipc-channel: the length of the packet, the length of the message, and the
/// message. The message is the kind of packet, the length of the frame with seven bits in each
/// byte, the frame, and `tail`.
fn wrapped(kind: u8, frame: &[u8], tail: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut message = vec![kind];
    let mut length = frame.len();
    while length >= 0x80 {
        message.push(0x80 | u8::try_from(length & 0x7f)?);
        length >>= 7;
    }
    message.push(u8::try_from(length)?);
    message.extend_from_slice(frame);
    message.extend_from_slice(tail);
    let header = [message.len() + 2 * size_of::<usize>(), message.len()];
    Ok([header.map(usize::to_ne_bytes).concat(), message].concat())
}
