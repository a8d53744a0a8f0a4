//! The transport between processes, over ipc-channel.
//!
//! The parent makes a [`Listener`] per child and hands its name over at spawn; the child calls
//! [`connect`]; the parent's [`Listener::accept`] returns once the child's `Hello` is there.
//! The first packet carries `Hello` and the sender by which the parent answers; after it no
//! channel and no descriptor travels from child to parent.
//!
//! ipc-channel trusts its peer. On Linux every packet after the first is therefore looked at
//! before it is received: one that is not whole, is too large or carries descriptors ends the
//! channel as [`TransportError::PeerMisbehaved`], and cannot make the parent wait, grow, leak
//! or abort. What remains: the *first* packet is received unseen. A child (or another process
//! of the same user) that forges it can panic ipc-channel's receiver, which is contained here,
//! make `accept` wait until [`Abandon::abandon`], or, by announcing terabytes with a socket
//! attached, end the process by a failed allocation. With `panic = "abort"` a forged first
//! packet ends the process as well.
//!
//! Not used at all: the global router and receiver sets, since one peer could starve or stop
//! the others there. One thread per receiver.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ipc_channel::IpcError;
use ipc_channel::ipc::{self, IpcOneShotServer, IpcReceiver, IpcSender};
use serde::{Deserialize, Serialize};

use super::{
    ChildEnds, FrameReceiver, FrameSender, ParentEnds, Receiver, Sender, TransportError, check_frame,
};
use crate::codec;
use crate::environment::Token;
use crate::limits::MAX_FRAME_BYTES;
use crate::message::{Hello, PROTOCOL_VERSION, ToParent};
use crate::sys::{self, Guard, Peek};

/// Longest path of a socket; ipc-channel would cut a longer one without a word.
const MAX_SOCKET_PATH: usize = 107;

/// What ipc-channel appends to the temporary directory: `/.tmpXXXXXX/socket`.
const SOCKET_SUFFIX: usize = 18;

/// Bytes that a packet may have beyond its frame: the packet's kind and the frame's length.
const PACKET_SLACK: usize = 16;

/// What travels. Only the first packet of a channel may be another one than `Frame`.
#[derive(Debug, Serialize, Deserialize)]
enum Packet {
    Frame(Vec<u8>),
    Hello { frame: Vec<u8>, answers: IpcSender<Packet> },
    Abandon,
}

/// Waits for one child to connect.
pub struct Listener {
    server: IpcOneShotServer<Packet>,
    name: String,
    waiting: Arc<Waiting>,
}

/// What a [`Listener`] and its [`Abandon`] handles know of each other.
#[derive(Debug, Default)]
struct Waiting {
    abandoned: AtomicBool,
    over: AtomicBool,
}

/// Ends the waiting of a [`Listener`], from any thread.
#[derive(Clone, Debug)]
pub struct Abandon {
    name: String,
    waiting: Arc<Waiting>,
}

/// A child that has connected and said who it is.
#[derive(Debug)]
pub struct Accepted {
    /// What it said. The token has been compared; the rest is the child's own word.
    pub hello: Hello,
    /// The channels to it.
    pub ends: ParentEnds,
}

impl Listener {
    /// Starts to listen, under a name that nobody else has.
    ///
    /// # Errors
    /// [`TransportError::NameTooLong`] when the temporary directory's path leaves no room for a
    /// socket's, [`TransportError::Io`].
    pub fn new() -> Result<Self, TransportError> {
        check_room(&std::env::temp_dir())?;
        let (server, name) =
            guarded("a failed socket", || IpcOneShotServer::new().map_err(TransportError::Io))?;
        check_bound(&name)?;
        Ok(Self { server, name, waiting: Arc::default() })
    }

    /// The name to hand to the child.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A handle that ends [`Self::accept`].
    pub fn abandon_handle(&self) -> Abandon {
        Abandon { name: self.name.clone(), waiting: Arc::clone(&self.waiting) }
    }

    /// Waits for the child. The first to connect wins, so a wrong one ends the waiting, too.
    ///
    /// # Errors
    /// [`TransportError::Abandoned`], [`TransportError::WrongToken`], and
    /// [`TransportError::Protocol`] or [`TransportError::PeerMisbehaved`] when what connected
    /// did not begin with a `Hello` of this version.
    pub fn accept(self, expected: &Token) -> Result<Accepted, TransportError> {
        let Self { server, name, waiting } = self;
        let accepted = sys::with_signals_blocked(|| {
            guarded("a packet that cannot be received", || Ok(server.accept()?))
        });
        waiting.over.store(true, Ordering::Release);
        let guard = sys::claim_accepted(Path::new(&name));
        match accepted {
            Ok((_, Packet::Abandon)) => Err(TransportError::Abandoned),
            Err(_) if waiting.abandoned.load(Ordering::Acquire) => Err(TransportError::Abandoned),
            Err(error) => Err(error),
            Ok((packets, Packet::Hello { frame, answers })) => {
                welcome(PacketReceiver::new(packets, guard), &frame, answers, expected)
            }
            Ok((_, Packet::Frame(_))) => Err(TransportError::PeerMisbehaved("a message before Hello")),
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Abandon {
    /// Makes [`Listener::accept`] return, now or when it is called. A child that has connected
    /// and said `Hello` before is still accepted, and what it sent can be received. Never waits;
    /// may be called again; has no effect once `accept` has returned.
    pub fn abandon(&self) {
        self.waiting.abandoned.store(true, Ordering::Release);
        if self.waiting.over.load(Ordering::Acquire) {
            return;
        }
        sys::interrupt_sockets(Path::new(&self.name));
        #[cfg(not(all(target_os = "linux", not(profiler_portable))))]
        if let Ok(sender) = IpcSender::connect(self.name.clone()) {
            let _ = sender.send(Packet::Abandon); // nobody listens any more: just as well
        }
    }
}

/// In the child: connects to the parent and says `hello`.
///
/// # Errors
/// [`TransportError::Disconnected`] when nobody listens any more, [`TransportError::NameTooLong`],
/// [`TransportError::Protocol`] for a `hello` beyond its limits.
pub fn connect(server: &str, hello: Hello) -> Result<ChildEnds, TransportError> {
    let frame = codec::encode(&ToParent::Hello(hello))?;
    if server.len() > MAX_SOCKET_PATH {
        return Err(TransportError::NameTooLong { length: server.len() });
    }
    guarded("a failed connection", || {
        let packets = IpcSender::connect(server.to_owned())?;
        let (answers, from_parent) = ipc::channel()?;
        packets.send(Packet::Hello { frame, answers })?;
        Ok(ChildEnds {
            sender: Sender::new(PacketSender::new(packets)),
            receiver: Receiver::new(PacketReceiver::new(from_parent, None)),
        })
    })
}

fn welcome(
    packets: PacketReceiver,
    frame: &[u8],
    answers: IpcSender<Packet>,
    expected: &Token,
) -> Result<Accepted, TransportError> {
    check_frame(frame)?;
    let ToParent::Hello(hello) = codec::decode(frame)? else {
        return Err(TransportError::PeerMisbehaved("a message before Hello"));
    };
    if hello.token != *expected {
        return Err(TransportError::WrongToken);
    }
    if hello.version != PROTOCOL_VERSION {
        let (theirs, ours) = (hello.version, PROTOCOL_VERSION);
        return Err(codec::ProtocolError::WrongVersion { theirs, ours }.into());
    }
    let ends =
        ParentEnds { sender: Sender::new(PacketSender::new(answers)), receiver: Receiver::new(packets) };
    Ok(Accepted { hello, ends })
}

/// Before anything is made: a socket below `directory` must have room for its path.
fn check_room(directory: &Path) -> Result<(), TransportError> {
    let length = directory.as_os_str().len() + SOCKET_SUFFIX;
    if cfg!(unix) && length > MAX_SOCKET_PATH { Err(TransportError::NameTooLong { length }) } else { Ok(()) }
}

/// Afterwards: the socket must stand where its name says, in a directory that is ours alone.
fn check_bound(name: &str) -> Result<(), TransportError> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let path = PathBuf::from(name);
    if name.len() > MAX_SOCKET_PATH || !path.exists() {
        return Err(TransportError::NameTooLong { length: name.len() });
    }
    close_to_others(&path).map_err(TransportError::Io)
}

/// ipc-channel leaves the directory's mode to the umask.
#[cfg(unix)]
fn close_to_others(socket: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let Some(directory) = socket.parent() else { return Ok(()) };
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn close_to_others(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Runs what may panic inside ipc-channel; a panic is the loss of this peer, nothing more.
fn guarded<T>(
    what: &'static str,
    act: impl FnOnce() -> Result<T, TransportError>,
) -> Result<T, TransportError> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(TransportError::PeerMisbehaved(what)))
}

/// Sends frames as packets.
struct PacketSender {
    packets: IpcSender<Packet>,
    owner: u32,
}

/// Receives packets and unpacks their frames.
struct PacketReceiver {
    packets: IpcReceiver<Packet>,
    guard: Option<Guard>,
    owner: u32,
    /// Set by the first error, after which nothing is received.
    ended: bool,
}

impl PacketSender {
    fn new(packets: IpcSender<Packet>) -> Self {
        Self { packets, owner: std::process::id() }
    }
}

impl FrameSender for PacketSender {
    fn send(&mut self, frame: &[u8]) -> Result<(), TransportError> {
        check_frame(frame)?;
        check_owner(self.owner)?;
        retry_interrupted(|| {
            guarded("a channel that fails", || Ok(self.packets.send(Packet::Frame(frame.to_vec()))?))
        })
    }
}

impl PacketReceiver {
    fn new(packets: IpcReceiver<Packet>, guard: Option<Guard>) -> Self {
        Self { packets, guard, owner: std::process::id(), ended: false }
    }

    fn receive(&mut self) -> Result<Vec<u8>, TransportError> {
        if let Some(guard) = &self.guard {
            check_packet(guard.peek()?)?;
        }
        let packets = &self.packets;
        match retry_interrupted(|| guarded("a packet that cannot be received", || Ok(packets.recv()?)))? {
            Packet::Frame(frame) if frame.len() <= MAX_FRAME_BYTES => Ok(frame),
            Packet::Frame(_) => Err(TransportError::PeerMisbehaved("a frame too large")),
            _ => Err(TransportError::PeerMisbehaved("a second Hello")),
        }
    }
}

impl FrameReceiver for PacketReceiver {
    fn recv(&mut self) -> Result<Vec<u8>, TransportError> {
        check_owner(self.owner)?;
        if self.ended {
            return Err(TransportError::Disconnected);
        }
        let received = self.receive();
        self.ended = received.is_err();
        received
    }
}

fn check_packet(peek: Peek) -> Result<(), TransportError> {
    match peek {
        Peek::Closed => Err(TransportError::Disconnected),
        Peek::Whole { length } if length <= MAX_FRAME_BYTES + PACKET_SLACK => Ok(()),
        Peek::Whole { .. } => Err(TransportError::PeerMisbehaved("a packet too large")),
        Peek::Foreign => Err(TransportError::PeerMisbehaved("a packet of another kind")),
    }
}

/// A fork shares the socket and must not speak for its parent.
fn check_owner(owner: u32) -> Result<(), TransportError> {
    if std::process::id() == owner { Ok(()) } else { Err(TransportError::Forked) }
}

fn retry_interrupted<T>(mut act: impl FnMut() -> Result<T, TransportError>) -> Result<T, TransportError> {
    loop {
        match act() {
            Err(TransportError::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

impl From<IpcError> for TransportError {
    fn from(error: IpcError) -> Self {
        match error {
            IpcError::Disconnected => Self::Disconnected,
            IpcError::SerializationError(_) => Self::PeerMisbehaved("a packet that does not decode"),
            IpcError::Io(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests;
