//! How a process joins a session by itself: both sides of the first exchange.
//!
//! The parent's session creates a [`SessionListener`] and publishes its [`SessionAddress`]. A
//! process that finds the address in its environment calls [`join`]. The session takes the
//! process's number and user from the kernel, and answers with the descriptor of a pool or with a
//! refusal. The socket is then the process's control channel, exactly like the socket of an
//! untrusted child ([`super::inherited`]), beginning with its `Hello`. Linux only; elsewhere
//! [`SessionListener::new`] and [`join`] return errors.
//!
//! ```text
//! process                                         session
//!   connect ──────────────────────────────────▶    accept; SO_PEERCRED, SO_PEERPIDFD
//!   SO_PEERCRED: the same user?
//!   JoinRequest { token, name, start, … } ─────▶    the same user, the token, room in the limit?
//!   ◀── JoinAnswer::Welcome { token }, pool ────    SCM_RIGHTS
//!   Hello { token, … } ────────────────────────▶    as from any child
//! ```
//!
//! A hostile process of the same user can only lose its own connection: nothing here waits for it,
//! its packets are received as those of an untrusted child, and descriptors in them are never
//! received. Processes of other users are refused by both sides, and cannot enter the directory of
//! the socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use profiler_core::ids::{PoolId, ProcessId, ProcessKey, ProcessStart, UserId};
use profiler_core::internal::sys::{OwnDescriptor, is_alive};

use super::listener::Listener;
use super::{TransportError, inherited, stale_sockets};
use crate::codec::{self, ProtocolError};
use crate::environment::{SessionAddress, Token};
use crate::limits::{MAX_JOIN_FRAME_BYTES, MAX_REFUSAL_BYTES, clip};
use crate::message::{JoinAnswer, JoinRefusal, JoinRequest, PROTOCOL_VERSION};
use crate::sys::ReceiveMode;
use crate::sys::joining::{Asker, Deadline, Peer, SessionSocket, open_process, own_user, peer_of};
use crate::sys::packets::{Packet, PacketSocket};

/// The listening socket of a session, in a directory of mode 0700. Dropping it removes both.
#[derive(Debug)]
pub struct SessionListener {
    socket: SessionSocket,
    path: PathBuf,
    /// The process that made the directory; a forked child must not remove it.
    maker: u32,
}

impl SessionListener {
    /// Begins to listen in a new directory, below `$XDG_RUNTIME_DIR` or the temporary directory.
    ///
    /// # Errors
    /// [`TransportError::Unavailable`] on systems other than Linux, [`TransportError::Io`].
    pub fn new() -> Result<Self, TransportError> {
        let path = stale_sockets::make_directory().map_err(TransportError::Io)?;
        match SessionSocket::bind(&path) {
            Ok(socket) => {
                stale_sockets::sign(&path);
                let maker = std::process::id();
                Ok(Self {
                    socket,
                    path,
                    maker,
                })
            }
            Err(error) => {
                stale_sockets::remove_directory(&path);
                Err(match error.kind() {
                    io::ErrorKind::Unsupported => TransportError::Unavailable,
                    _ => TransportError::Io(error),
                })
            }
        }
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the next process. Returns `None` if none waits. Never waits.
    ///
    /// # Errors
    /// [`TransportError::DescriptorLost`], after which [`Self::renew`] helps;
    /// [`TransportError::Io`], for example if no descriptor is left.
    pub fn try_accept(&self) -> Result<Option<Joiner>, TransportError> {
        let Some(socket) = self.socket.accept()? else {
            return Ok(None);
        };
        let (peer, process) = peer_of(socket.as_fd()).map_err(TransportError::Io)?;
        let socket = PacketSocket::accepted(socket).map_err(TransportError::Io)?;
        Ok(Some(Joiner {
            socket: Arc::new(socket),
            peer,
            process: process.map(OwnDescriptor::new),
        }))
    }

    /// Listens again at the same address, after the program has closed the socket.
    ///
    /// # Errors
    /// [`TransportError::Io`].
    pub fn renew(&mut self) -> Result<(), TransportError> {
        self.socket.renew().map_err(TransportError::Io)
    }

    /// Returns the socket, which becomes readable when a process connects.
    ///
    /// # Errors
    /// [`TransportError::DescriptorLost`].
    #[cfg(unix)]
    pub fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        Ok(self.socket.socket()?)
    }

    /// Removes the socket's file and its directory, as dropping the listener does: no further
    /// process can connect.
    pub fn remove_files(&self) {
        if std::process::id() == self.maker {
            stale_sockets::remove_directory(&self.path);
        }
    }
}

impl Drop for SessionListener {
    fn drop(&mut self) {
        self.remove_files();
    }
}

/// A process that has connected to a session.
#[derive(Debug)]
pub struct Joiner {
    socket: Arc<PacketSocket>,
    peer: Peer,
    /// A descriptor of the process, if the kernel has provided it with the connection.
    process: Option<OwnDescriptor<OwnedFd>>,
}

impl Joiner {
    /// The process, as the kernel reports it; `None` if this process cannot see it.
    pub const fn pid(&self) -> Option<ProcessId> {
        self.peer.pid
    }

    /// Whether the process belongs to the user of this process.
    pub fn is_of_this_user(&self) -> bool {
        self.peer.user == own_user()
    }

    /// Receives the request. Returns `None` if it has not arrived. Never waits.
    ///
    /// # Errors
    /// [`TransportError::Disconnected`] if the process has closed the connection,
    /// [`TransportError::Protocol`] for a request of another version, and
    /// [`TransportError::PeerMisbehaved`] for anything else that is not a request of this process.
    pub fn try_receive(&self) -> Result<Option<JoinRequest>, TransportError> {
        let mut room = [0; MAX_JOIN_FRAME_BYTES];
        let Some(packet) = self.socket.receive(&mut room, ReceiveMode::Try)? else {
            return Ok(None);
        };
        match packet {
            Packet::Closed => Err(TransportError::Disconnected),
            Packet::TooLarge => Err(TransportError::PeerMisbehaved("a packet too large")),
            Packet::Attached => Err(TransportError::PeerMisbehaved("a packet of another kind")),
            Packet::Whole { sender, .. } if self.pid() != Some(ProcessId::new(sender)) => Err(
                TransportError::PeerMisbehaved("a packet of another process"),
            ),
            Packet::Whole { length, .. } => {
                let frame = room.get(..length).unwrap_or_default();
                Ok(Some(codec::decode(frame)?))
            }
        }
    }

    /// Takes a descriptor of the process: the one of the connection or, on kernels before Linux
    /// 6.5, one of the process that has its number now, if that process has the start time that the
    /// process has stated.
    pub fn take_process(&mut self, start: ProcessStart) -> Option<OwnDescriptor<OwnedFd>> {
        if let Some(process) = self.process.take() {
            return Some(process);
        }
        let pid = self.pid()?;
        let process = OwnDescriptor::new(open_process(pid)?);
        let pool = PoolId::new(0);
        is_alive(&ProcessKey { pid, start, pool }).then_some(process)
    }

    /// The channel on which the process will send its `Hello`.
    pub fn channel(&self) -> Listener {
        Listener::Inherited(inherited::Listener::of(Arc::clone(&self.socket)))
    }

    /// Sends the pool, and the token for the process's `Hello`. Never waits.
    ///
    /// # Errors
    /// [`TransportError::Disconnected`] if the process has closed the connection,
    /// [`TransportError::Io`].
    pub fn welcome(&self, pool: &File, token: &Token) -> Result<(), TransportError> {
        let token = token.clone();
        let answer = codec::encode(&JoinAnswer::Welcome { token })?;
        Ok(self.socket.send_with(&answer, pool)?)
    }

    /// Tells the process why it may not join. Never waits; the process may be gone.
    pub fn refuse(&self, mut why: JoinRefusal) {
        if let JoinRefusal::Misbehaved(text)
        | JoinRefusal::NoMemory(text)
        | JoinRefusal::System(text) = &mut why
        {
            clip(text, MAX_REFUSAL_BYTES);
        }
        if let Ok(answer) = codec::encode(&JoinAnswer::Refused(why)) {
            let _ = self.socket.send(&answer, false);
        }
    }

    /// Returns the socket, which becomes readable when the process sends a packet or closes the
    /// connection.
    ///
    /// # Errors
    /// [`TransportError::DescriptorLost`].
    #[cfg(unix)]
    pub fn socket(&self) -> Result<BorrowedFd<'_>, TransportError> {
        Ok(self.socket.socket()?)
    }
}

/// Why a process could not join.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Nobody listens at the address: the session is over.
    #[error("nobody listens at the session's address")]
    NoSession(#[source] io::Error),
    /// Another user's process listens at the address.
    #[error("the process at the session's address belongs to user {0}")]
    OtherUser(UserId),
    /// The session did not answer in time; it may be stopped or busy.
    #[error("the session did not answer within {} ms", .0.as_millis())]
    NoAnswer(Duration),
    /// The session refuses this process.
    #[error("the session refuses this process: {0}")]
    Refused(#[from] JoinRefusal),
    /// The session's answer cannot be used.
    #[error("the session's answer is of no use: {0}")]
    BadAnswer(&'static str),
    /// The connection failed.
    #[error(transparent)]
    Channel(#[from] TransportError),
}

/// A session's answer to a process that may record.
#[derive(Debug)]
pub struct Joined {
    /// The memory to record into.
    pub pool: File,
    /// The control channel, for [`super::listener::Endpoint::Inherited`].
    pub channel: File,
    /// The token for the `Hello`.
    pub token: Token,
}

/// In a process that joins: asks the session at `address` for a pool. Waits at most `patience`,
/// and not at all if nobody listens. Sends the token only to a process of the same user.
///
/// # Errors
/// [`JoinError`]; no descriptor is left open then.
pub fn join(
    address: &SessionAddress,
    request: &JoinRequest,
    patience: Duration,
) -> Result<Joined, JoinError> {
    let deadline = Deadline::after(patience);
    let asker = connect(address.path(), &deadline, patience)?;
    let frame = codec::encode(request).map_err(TransportError::from)?;
    asker.send(&frame).map_err(TransportError::from)?;
    let mut room = [0; MAX_JOIN_FRAME_BYTES];
    let received = asker
        .receive(&mut room, &deadline)
        .map_err(TransportError::from)?;
    let Some((length, pool)) = received else {
        return Err(JoinError::NoAnswer(patience));
    };
    if length == 0 {
        return Err(TransportError::Disconnected.into());
    }
    let frame = room.get(..length).unwrap_or_default();
    let token = match codec::decode(frame).map_err(TransportError::from)? {
        JoinAnswer::Welcome { token } => token,
        JoinAnswer::Refused(why) => return Err(why.into()),
    };
    let pool = pool.ok_or(JoinError::BadAnswer("it contains no memory"))?;
    let channel = asker.into_channel().map_err(TransportError::from)?;
    Ok(Joined {
        pool,
        channel,
        token,
    })
}

/// In a process of another version than the session: tells the session so, so that it can list the
/// process as not profiled. Waits for at most `patience`, and for no answer.
///
/// # Errors
/// [`JoinError`], if the session does not learn it.
pub fn report_version(path: &Path, patience: Duration) -> Result<(), JoinError> {
    let asker = connect(path, &Deadline::after(patience), patience)?;
    let version = u16::try_from(PROTOCOL_VERSION).unwrap_or(u16::MAX);
    Ok(asker
        .send(&version.to_le_bytes())
        .map_err(TransportError::from)?)
}

fn connect(path: &Path, deadline: &Deadline, patience: Duration) -> Result<Asker, JoinError> {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound, TimedOut};
    let asker = Asker::connect(path, deadline).map_err(|error| match error.kind() {
        NotFound | NotADirectory | ConnectionRefused => JoinError::NoSession(error),
        TimedOut => JoinError::NoAnswer(patience),
        _ => TransportError::Io(error).into(),
    })?;
    let user = asker.peer().map_err(TransportError::from)?.user;
    if user == own_user() {
        Ok(asker)
    } else {
        Err(JoinError::OtherUser(user))
    }
}

/// The refusal for a request that could not be received.
pub fn refusal_for(error: &TransportError) -> JoinRefusal {
    match error {
        TransportError::Protocol(ProtocolError::WrongVersion { theirs, ours }) => {
            JoinRefusal::WrongVersion {
                theirs: *theirs,
                ours: *ours,
            }
        }
        TransportError::PeerMisbehaved(what) => JoinRefusal::Misbehaved((*what).to_owned()),
        error => JoinRefusal::Misbehaved(error.to_string()),
    }
}

#[cfg(all(test, target_os = "linux", not(profiler_portable)))]
mod tests;
