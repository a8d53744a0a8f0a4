//! The session's side: the listening socket, and the processes that have connected.
//!
//! Used by the parent's join thread. Nothing here waits.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use profiler_core::ids::{ProcessId, ProcessStart};
use profiler_sys::OwnDescriptor;

use super::super::listener::Listener;
use super::super::{TransportError, inherited, stale_sockets};
use crate::codec::{self, ProtocolError};
use crate::environment::Token;
use crate::limits::{MAX_JOIN_FRAME_BYTES, MAX_REFUSAL_BYTES, clip};
use crate::message::{JoinAnswer, JoinRefusal, Opening};
use crate::sys::ReceiveMode;
use crate::sys::joining::{Peer, SessionSocket, open_process, own_user, peer_of};
use crate::sys::packets::{Closer, Packet, PacketSocket};

/// The listening socket of a session, in a directory of mode 0700. Dropping it removes both.
#[derive(Debug)]
pub struct SessionListener {
    socket: SessionSocket,
    path: PathBuf,
    closer: Arc<Closer>,
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
                    closer: Arc::default(),
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
        let socket =
            PacketSocket::accepted(socket, Arc::clone(&self.closer)).map_err(TransportError::Io)?;
        Ok(Some(Joiner {
            socket: Arc::new(socket),
            peer,
            process: process.map(OwnDescriptor::new),
        }))
    }

    /// Number of sockets of former connections that wait to be closed, because their processes have
    /// attached descriptors to them. Each costs a descriptor.
    pub fn closing(&self) -> usize {
        self.closer.waiting()
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
    pub(super) socket: Arc<PacketSocket>,
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

    /// Receives the first packet. Returns `None` if it has not arrived. Never waits.
    ///
    /// # Errors
    /// [`TransportError::Disconnected`] if the process has closed the connection,
    /// [`TransportError::Protocol`] for a packet of another version, and
    /// [`TransportError::PeerMisbehaved`] for anything else that is not a packet of this process.
    pub fn try_receive(&self) -> Result<Option<Opening>, TransportError> {
        let mut room = [0; MAX_JOIN_FRAME_BYTES];
        let Some(packet) = self.socket.receive(&mut room, ReceiveMode::Try)? else {
            return Ok(None);
        };
        match packet {
            Packet::Closed => Err(TransportError::Disconnected),
            Packet::TooLarge => Err(TransportError::PeerMisbehaved("a packet too large")),
            Packet::Attached => Err(TransportError::PeerMisbehaved("a packet of another kind")),
            // The kernel reports 0 in both places if this process cannot see the other one.
            Packet::Whole { sender, .. } if self.pid().map_or(0, ProcessId::get) != sender => Err(
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
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the process is not visible from this one, or has ended; the
    /// system's error, for example if no descriptor is left.
    pub fn take_process(&mut self, start: ProcessStart) -> io::Result<OwnDescriptor<OwnedFd>> {
        match self.process.take() {
            Some(process) => Ok(process),
            None => open_process(self.pid().ok_or(io::ErrorKind::NotFound)?, start),
        }
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
        TransportError::Protocol(error) => JoinRefusal::Misbehaved(error.to_string()),
        error => JoinRefusal::System(error.to_string()),
    }
}
