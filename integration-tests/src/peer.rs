//! A child's end of a control channel as a bare socket, to send through it what no child sends.
//!
//! Used by the tricks that are tried in one process, and by the helper process when it lies. Knows how
//! ipc-channel lays out its packets.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::ensure;
use ipc_protocol::codec;
use ipc_protocol::environment::{Server, Token};
use ipc_protocol::message::{Hello, PROTOCOL_VERSION, ToParent};
use profiler_core::ids::{ProcessId, ProcessStart};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};

/// What can be attached to one packet at most, here.
const MOST_ATTACHED: usize = 128;

/// The child's end.
#[derive(Debug)]
pub struct Peer {
    /// The bare socket.
    pub socket: OwnedFd,
    /// For ipc-channel: the socket that the parent answers to, and where the answers come.
    answers: Option<(OwnedFd, OwnedFd)>,
}

/// A true hello of this process.
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
    /// Connects, and says nothing.
    ///
    /// # Errors
    /// When nobody listens, or nothing was inherited.
    pub fn open(server: &Server) -> anyhow::Result<Self> {
        match server {
            Server::Inherited(socket) => Ok(Self { socket: socket.open()?.into(), answers: None }),
            Server::Named(name) => Self::connect(name),
        }
    }

    /// Connects to a listener of ipc-channel, and says nothing.
    ///
    /// # Errors
    /// When nobody listens.
    pub fn connect(name: &str) -> anyhow::Result<Self> {
        let (family, kind, flags) = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(family, kind, flags, None)?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(name)?)?;
        let answers = rustix::net::socketpair(family, kind, flags, None)?;
        Ok(Self { socket, answers: Some(answers) })
    }

    /// The end of an inherited channel.
    pub fn inherited(socket: std::fs::File) -> Self {
        Self { socket: socket.into(), answers: None }
    }

    /// Says hello as a child does, the first time.
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

    /// Says something as a child does.
    ///
    /// # Errors
    /// When the parent is gone.
    pub fn say(&self, message: &ToParent) -> anyhow::Result<()> {
        self.say_frame(&codec::encode(message)?)
    }

    /// Sends a frame as a child does, whatever is in it.
    ///
    /// # Errors
    /// When the parent is gone.
    pub fn say_frame(&self, frame: &[u8]) -> anyhow::Result<()> {
        match &self.answers {
            None => self.send(frame, &[]),
            Some(_) => self.send(&wrapped(0, frame, &[])?, &[]),
        }
    }

    /// Sends a packet of any bytes with any descriptors.
    ///
    /// # Errors
    /// What the system says.
    pub fn send(&self, bytes: &[u8], attached: &[BorrowedFd<'_>]) -> anyhow::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_ATTACHED))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = attached.is_empty() || control.push(SendAncillaryMessage::ScmRights(attached));
        ensure!(fits, "more than {MOST_ATTACHED} descriptors");
        let flags = SendFlags::EOR | SendFlags::NOSIGNAL;
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, flags)?;
        Ok(())
    }
}

/// A packet of ipc-channel: length of the packet, length of the message, then the message: which
/// packet it is, the frame with its length in seven bits a byte, and what follows it.
fn wrapped(kind: u8, frame: &[u8], rest: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut message = vec![kind];
    let mut length = frame.len();
    while length >= 0x80 {
        message.push(0x80 | u8::try_from(length & 0x7f)?);
        length >>= 7;
    }
    message.push(u8::try_from(length)?);
    message.extend_from_slice(frame);
    message.extend_from_slice(rest);
    let header = [message.len() + 2 * size_of::<usize>(), message.len()];
    Ok([header.map(usize::to_ne_bytes).concat(), message].concat())
}
