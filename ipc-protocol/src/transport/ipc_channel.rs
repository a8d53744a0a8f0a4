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
//! The channel to the child is one that the child made, so a child that is hostile, not merely slow, can
//! make a `send` to itself wait until it dies, and with it the thread that sends to all children.
//!
//! So this transport is for children that are trusted to be what they are; [`super::inherited`] holds
//! against the others.
//!
//! Not used at all: the global router and receiver sets, since one peer could starve or stop
//! the others there. One thread per receiver.

pub mod leftovers;
mod packets;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ipc_channel::ipc::{self, IpcOneShotServer, IpcSender};
use rustix::io::Errno;

use self::packets::{Packet, PacketReceiver, PacketSender, guarded};
use super::listener::{Accepted, check_hello};
use super::{ChildEnds, ParentEnds, Receiver, Sender, TransportError};
use crate::codec;
use crate::environment::Token;
use crate::message::{Hello, ToParent};
use crate::sys::{self, Guard, HangUp};

/// Longest path of a socket; ipc-channel would cut a longer one without a word.
const MAX_SOCKET_PATH: usize = 107;

/// What ipc-channel appends to the temporary directory: `/.tmpXXXXXX/socket`.
const SOCKET_SUFFIX: usize = 18;

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
    /// Ends the accepted channel.
    accepted: OnceLock<HangUp>,
}

/// Ends the waiting of a [`Listener`], from any thread.
#[derive(Clone, Debug)]
pub struct Abandon {
    name: String,
    waiting: Arc<Waiting>,
}

/// What the system really said. `ipc-channel` does not look whether it got a socket and goes on with the number -1,
/// which is a bad descriptor then.
fn no_descriptor(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) if code == Errno::BADF.raw_os_error() => Errno::MFILE.into(),
        _ => error,
    }
}

impl Listener {
    /// Starts to listen, under a name that nobody else has.
    ///
    /// # Errors
    /// [`TransportError::NameTooLong`] when the temporary directory's path leaves no room for a
    /// socket's, [`TransportError::Io`].
    pub fn new() -> Result<Self, TransportError> {
        check_room(&std::env::temp_dir())?;
        let (server, name) = guarded("a failed socket", || {
            IpcOneShotServer::new().map_err(|error| TransportError::Io(no_descriptor(error)))
        })?;
        check_bound(&name)?;
        leftovers::sign(Path::new(&name));
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
        let guard = sys::claim_accepted(Path::new(&name));
        if let Some(guard) = &guard {
            let _ = waiting.accepted.set(guard.hang_up_handle()); // once per listener
        }
        waiting.over.store(true, Ordering::Release);
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

impl Abandon {
    /// Ends the channel of the child that was accepted: whoever waits for its messages hears that
    /// it is gone. Linux only; elsewhere the channel ends with the child.
    pub fn hang_up(&self) {
        match self.waiting.accepted.get() {
            Some(accepted) => accepted.hang_up(),
            None => sys::interrupt_sockets(Path::new(&self.name)),
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
    let mut hello = check_hello(frame, expected)?;
    if let Some(pid) = packets.guard.as_ref().and_then(Guard::peer_process) {
        hello.pid = pid; // the kernel knows better than the child
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

#[cfg(test)]
mod tests;
