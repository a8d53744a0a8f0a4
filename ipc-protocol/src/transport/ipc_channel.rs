//! The transport between processes, over ipc-channel.
//!
//! The parent creates a [`Listener`] per child and hands over its name at spawn; the child calls
//! [`connect`]; the parent's [`Listener::accept`] returns once the child's `Hello` has arrived. The
//! first packet carries `Hello` and the sender by which the parent answers; after it no channel and
//! no descriptor travels from child to parent.
//!
//! ipc-channel trusts its peer. On Linux every packet is therefore checked before it is received: a
//! packet that is not whole, is too large or carries descriptors ends the channel as
//! [`TransportError::PeerMisbehaved`], and cannot make the parent wait, grow, leak or abort. The
//! first packet must carry descriptors, since a sender travels in it.
//!
//! The descriptors of ipc-channel's types are held as `OwnDescriptor`: if the program closes them,
//! the channel ends with [`TransportError::DescriptorLost`], and files that reuse their numbers are
//! neither used nor closed.
//!
//! The child creates the channel to itself. A hostile child, not merely a slow one, can therefore
//! make a `send` to itself wait until the child dies, which blocks the thread that sends to all
//! children. So this transport is for trusted children only; [`super::inherited`] is safe for
//! untrusted ones.
//!
//! The global router and receiver sets are not used, since one peer could starve or stop the others
//! there. The parent waits for its children with [`super::ready`] instead.

mod packets;

use std::io;
#[cfg(unix)]
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ipc_channel::ipc::{self, IpcSender};

use self::packets::{
    Answers, CANNOT_RECEIVE, Packet, PacketReceiver, PacketSender, check_first, guarded,
    retry_interrupted,
};
use super::accepted::{Accepted, TryAccept, check_hello};
use super::stale_sockets;
use super::{ChildEnds, ParentEnds, Receiver, Sender, TransportError};
use crate::codec;
use crate::environment::Token;
use crate::message::{Hello, ToParent};
use crate::sys::ReceiveMode;
use crate::sys::listening::{Connection, Guard, HangUp, ListeningSocket, Opened, own_channel};

/// Longest path of a socket; ipc-channel would truncate a longer one silently.
const MAX_SOCKET_PATH: usize = 107;

/// Length of the path that a listener appends to the temporary directory: `/.tmpXXXXXX/socket`.
const SOCKET_SUFFIX: usize = 18;

/// Waits for one child to connect.
pub struct Listener {
    stage: AcceptStage,
    name: String,
    waiting: Arc<Waiting>,
}

/// The event that a [`Listener`] waits for.
enum AcceptStage {
    /// A connection.
    Listening(ListeningSocket<Packet>),
    /// The first packet of the connection.
    Connected(Connection<Packet>),
}

/// State shared by a [`Listener`] and its [`CancelHandle`] handles.
#[derive(Debug)]
struct Waiting {
    abandoned: AtomicBool,
    over: AtomicBool,
    /// Ends the wait for a connection.
    listening: HangUp,
    /// Ends the accepted channel.
    accepted: OnceLock<HangUp>,
}

/// Ends the wait of a [`Listener`], from any thread.
#[derive(Clone, Debug)]
pub struct CancelHandle {
    #[cfg_attr(all(target_os = "linux", not(profiler_portable)), allow(dead_code))]
    name: String,
    waiting: Arc<Waiting>,
}

impl Listener {
    /// Starts to listen, under a unique name.
    ///
    /// # Errors
    /// [`TransportError::NameTooLong`] when the temporary directory's path is too long for a socket
    /// in it, [`TransportError::Io`].
    pub fn new() -> Result<Self, TransportError> {
        check_room(&std::env::temp_dir())?;
        let listening = guarded("a failed socket", || {
            ListeningSocket::new().map_err(TransportError::Io)
        })?;
        let name = listening.name().to_owned();
        check_bound(&name)?;
        stale_sockets::sign(Path::new(&name));
        let waiting = Waiting {
            abandoned: AtomicBool::new(false),
            over: AtomicBool::new(false),
            listening: listening.hang_up_handle(),
            accepted: OnceLock::new(),
        };
        Ok(Self {
            stage: AcceptStage::Listening(listening),
            name,
            waiting: Arc::new(waiting),
        })
    }

    /// The name to hand to the child.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a handle that ends [`Self::accept`].
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle {
            name: self.name.clone(),
            waiting: Arc::clone(&self.waiting),
        }
    }

    /// Waits for the child. Only the first connection is accepted, so a wrong one ends the wait,
    /// too.
    ///
    /// # Errors
    /// [`TransportError::Abandoned`], [`TransportError::WrongToken`], and
    /// [`TransportError::Protocol`] or [`TransportError::PeerMisbehaved`] when the first packet was
    /// not a `Hello` of this version.
    pub fn accept(self, expected: &Token) -> Result<Accepted, TransportError> {
        let mut progress = TryAccept::Waiting(self);
        loop {
            progress = match progress {
                TryAccept::Waiting(listener) => listener.advance(expected, ReceiveMode::Wait)?,
                TryAccept::Accepted(accepted) => return Ok(accepted),
            };
        }
    }

    /// Accepts the child if that is possible without blocking.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn try_accept(self, expected: &Token) -> Result<TryAccept<Self>, TransportError> {
        self.advance(expected, ReceiveMode::Try)
    }

    /// Returns the socket, which becomes readable when [`Self::try_accept`] can make progress.
    ///
    /// # Errors
    /// [`TransportError::DescriptorLost`]; other systems than Linux have no such socket.
    #[cfg(unix)]
    pub fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        match &self.stage {
            AcceptStage::Listening(listening) => Ok(listening.socket()?),
            AcceptStage::Connected(connection) => Ok(connection
                .guard()
                .ok_or(TransportError::Unavailable)?
                .socket()?),
        }
    }

    /// Performs one step. In [`ReceiveMode::Try`] returns the same stage if no data is available.
    fn advance(
        self,
        expected: &Token,
        mode: ReceiveMode,
    ) -> Result<TryAccept<Self>, TransportError> {
        let Self {
            stage,
            name,
            waiting,
        } = self;
        let step = match stage {
            AcceptStage::Listening(listening) => accept_connection(listening, &waiting, mode),
            AcceptStage::Connected(connection) => receive_first(connection, mode),
        };
        if let Ok(AcceptStep::To(stage)) = step {
            return Ok(TryAccept::Waiting(Self {
                stage,
                name,
                waiting,
            }));
        }
        waiting.over.store(true, Ordering::SeqCst);
        match step {
            Ok(AcceptStep::To(_) | AcceptStep::Received(Packet::Cancel, _)) => {
                Err(TransportError::Abandoned)
            }
            Err(_) if waiting.abandoned.load(Ordering::SeqCst) => Err(TransportError::Abandoned),
            Err(error) => Err(error),
            Ok(AcceptStep::Received(Packet::Hello { frame, answers }, packets)) => {
                welcome(packets, &frame, answers, expected).map(TryAccept::Accepted)
            }
            Ok(AcceptStep::Received(Packet::Frame(_), _)) => {
                Err(TransportError::PeerMisbehaved("a message before Hello"))
            }
        }
    }
}

/// The result of one step.
enum AcceptStep {
    /// Another stage, or the same one.
    To(AcceptStage),
    /// The first packet, and the receiver of later packets.
    Received(Packet, PacketReceiver),
}

/// Accepts the first connection, then closes the listening socket and removes its directory.
fn accept_connection(
    listening: ListeningSocket<Packet>,
    waiting: &Waiting,
    mode: ReceiveMode,
) -> Result<AcceptStep, TransportError> {
    let Some(connection) = guarded(CANNOT_RECEIVE, || Ok(listening.accept(mode)?))? else {
        return Ok(AcceptStep::To(AcceptStage::Listening(listening)));
    };
    if let Some(guard) = connection.guard() {
        let hang_up = waiting.accepted.get_or_init(|| guard.hang_up_handle());
        if waiting.abandoned.load(Ordering::SeqCst) {
            hang_up.hang_up(); // `abandon` may have come first; sent data is still received
        }
    }
    Ok(AcceptStep::To(AcceptStage::Connected(connection)))
}

/// Receives the first packet of the connection.
fn receive_first(
    connection: Connection<Packet>,
    mode: ReceiveMode,
) -> Result<AcceptStep, TransportError> {
    if let Some(guard) = connection.guard() {
        match guard.peek(mode)? {
            Some(peek) => check_first(peek)?,
            None => return Ok(AcceptStep::To(AcceptStage::Connected(connection))),
        }
    }
    let Opened {
        packets,
        first,
        guard,
    } = guarded(CANNOT_RECEIVE, || Ok(connection.open()?))?;
    let first = match first {
        Some(first) => first,
        None => {
            let packets = packets.get()?;
            retry_interrupted(|| guarded(CANNOT_RECEIVE, || Ok(packets.recv()?)))?
        }
    };
    Ok(AcceptStep::Received(
        first,
        PacketReceiver::new(packets, guard),
    ))
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl CancelHandle {
    /// Makes [`Listener::accept`] return, now or when it is called. A child that has connected and
    /// sent `Hello` before is still accepted, and its messages can be received. Never waits; may be
    /// called again; has no effect after `accept` has returned.
    pub fn abandon(&self) {
        self.waiting.abandoned.store(true, Ordering::SeqCst);
        if self.waiting.over.load(Ordering::SeqCst) {
            return;
        }
        self.hang_up();
        #[cfg(not(all(target_os = "linux", not(profiler_portable))))]
        if let Ok(sender) = IpcSender::connect(self.name.clone()) {
            let _ = sender.send(Packet::Cancel); // an error: no listener is left
        }
    }

    /// Ends the channel of the accepted child: a thread that waits for its messages gets an error.
    /// Linux only; elsewhere the channel ends with the child.
    pub fn hang_up(&self) {
        match self.waiting.accepted.get() {
            Some(accepted) => accepted.hang_up(),
            None => self.waiting.listening.hang_up(),
        }
    }
}

/// In the child: connects to the parent and sends `hello`.
///
/// # Errors
/// [`TransportError::Disconnected`] when the parent no longer listens,
/// [`TransportError::NameTooLong`], [`TransportError::Protocol`] for a `hello` beyond its limits.
pub fn connect(server: &str, hello: Hello) -> Result<ChildEnds, TransportError> {
    let frame = codec::encode(&ToParent::Hello(hello))?;
    if server.len() > MAX_SOCKET_PATH {
        return Err(TransportError::NameTooLong {
            length: server.len(),
        });
    }
    guarded("a failed connection", || {
        let packets = own_channel(IpcSender::connect(server.to_owned())?);
        let (answers, from_parent) = ipc::channel()?;
        let answers = Answers::new(answers);
        let from_parent = own_channel(from_parent);
        packets.get()?.send(Packet::Hello { frame, answers })?;
        Ok(ChildEnds {
            sender: Sender::new(PacketSender::new(packets).with(&from_parent)),
            receiver: Receiver::new(PacketReceiver::new(from_parent, None)),
        })
    })
}

fn welcome(
    packets: PacketReceiver,
    frame: &[u8],
    answers: Answers,
    expected: &Token,
) -> Result<Accepted, TransportError> {
    let mut hello = check_hello(frame, expected)?;
    if let Some(pid) = packets.guard.as_ref().and_then(Guard::peer_process) {
        hello.pid = pid; // the kernel's number is more reliable than the child's
    }
    let sender = PacketSender::new(answers.into_sender());
    Ok(Accepted {
        hello,
        ends: ParentEnds {
            sender: Sender::new(sender),
            receiver: Receiver::new(packets),
        },
    })
}

/// Checks, before creation, that the path of a socket below `directory` is short enough.
fn check_room(directory: &Path) -> Result<(), TransportError> {
    let length = directory.as_os_str().len() + SOCKET_SUFFIX;
    if cfg!(unix) && length > MAX_SOCKET_PATH {
        Err(TransportError::NameTooLong { length })
    } else {
        Ok(())
    }
}

/// Checks, after creation, that the socket exists under its name, and lets only this user enter its
/// directory.
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

/// Restricts the directory's mode, which ipc-channel leaves to the umask.
#[cfg(unix)]
fn close_to_others(socket: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let Some(directory) = socket.parent() else {
        return Ok(());
    };
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn close_to_others(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests;
