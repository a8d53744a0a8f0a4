//! On Linux: a listening socket of our own, and a guard in front of ipc-channel's receivers.
//!
//! The guard exists because ipc-channel trusts the header of every packet: a forged one makes it
//! wait forever, panic, or abort the process. So the guard first reads the header with `MSG_PEEK`,
//! which also reports (as truncated control data) whether descriptors are attached, without
//! receiving them.
//!
//! ipc-channel's own server accepts without `SOCK_CLOEXEC` and does not expose the descriptor. So
//! the connection is accepted here, and `dup3` then puts it in the place of one end of a new
//! ipc-channel channel:
//!
//! ```text
//! child's connect() ──▶ accept4(SOCK_CLOEXEC) ──▶ socket ──┬──▶ Guard
//!                       ipc::channel() ──▶ receiver, number n ◀─ dup3(socket, n)
//! ```
//!
//! Invariants: every descriptor has `CLOEXEC` from the moment it exists; no descriptor of the
//! program is examined, duplicated or closed; the cost does not depend on how many descriptors the
//! program has.

use std::fmt::Debug;
use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Weak};

use ipc_channel::ipc::{self, IpcReceiver, IpcSender};
use profiler_core::ids::ProcessId;
use profiler_sys::{DescriptorLost, OwnDescriptor};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::{Opened, Peek, own_channel};
use crate::sys::ReceiveMode;

/// The capacity of the connection queue; only one child connects.
const BACKLOG: i32 = 10;

/// A named socket in its own directory. Both are removed together.
#[derive(Debug)]
pub(crate) struct ListeningSocket<T> {
    socket: Arc<OwnDescriptor<OwnedFd>>,
    name: String,
    _directory: TempDir,
    packets: PhantomData<fn() -> T>,
}

/// A connection from which nothing has been received.
#[derive(Debug)]
pub(crate) struct Connection<T> {
    guard: Guard,
    packets: PhantomData<fn() -> T>,
}

/// Ends the wait of a [`ListeningSocket`], or an accepted channel. Holds no socket open.
#[derive(Clone, Debug)]
pub(crate) struct HangUp(Weak<OwnDescriptor<OwnedFd>>);

impl HangUp {
    /// Ends the wait or the channel now; messages sent before can still be received.
    pub(crate) fn hang_up(&self) {
        if let Some(socket) = self.0.upgrade()
            && let Ok(socket) = socket.get()
        {
            let _ = rustix::net::shutdown(socket, Shutdown::Both); // an error: it has already ended
        }
    }
}

impl<T> ListeningSocket<T> {
    /// Listens at `TEMP/.tmpXXXXXX/socket`, in a directory that only this user may enter.
    pub(crate) fn new() -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let directory = builder
            .permissions(std::fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let path = directory.path().join("socket");
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        let name = path
            .into_os_string()
            .into_string()
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        let socket = Arc::new(OwnDescriptor::new(socket));
        Ok(Self {
            socket,
            name,
            _directory: directory,
            packets: PhantomData,
        })
    }

    /// The name to connect to.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Ends [`Self::accept`] from another thread.
    pub(crate) fn hang_up_handle(&self) -> HangUp {
        HangUp(Arc::downgrade(&self.socket))
    }

    /// Accepts the next connection. Returns `None` if none is queued and `mode` is `Try`.
    pub(crate) fn accept(&self, mode: ReceiveMode) -> io::Result<Option<Connection<T>>> {
        let mut has_hung_up = false;
        loop {
            let listening = self.socket.get()?;
            match rustix::net::accept_with(listening, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    let guard = Guard {
                        socket: Arc::new(OwnDescriptor::new(socket)),
                    };
                    return Ok(Some(Connection {
                        guard,
                        packets: PhantomData,
                    }));
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if has_hung_up => {
                    return Err(io::ErrorKind::NotConnected.into());
                }
                Err(rustix::io::Errno::AGAIN) => {
                    // A connection that came before the end is still accepted.
                    has_hung_up = poll_shutdown(listening.as_fd(), mode);
                    if !has_hung_up && mode == ReceiveMode::Try {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the socket, which becomes readable when a peer connects or [`HangUp::hang_up`] is
    /// called.
    pub(crate) fn socket(&self) -> Result<BorrowedFd<'_>, DescriptorLost> {
        Ok(self.socket.get()?.as_fd())
    }
}

impl<T: Serialize + DeserializeOwned + Debug> Connection<T> {
    /// The guard that checks the packets of this connection.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        Some(&self.guard)
    }

    /// Returns the receiver of this connection, the first packet if it was already received, and
    /// the guard.
    pub(crate) fn open(self) -> io::Result<Opened<T>> {
        Ok(Opened {
            packets: self.guard.receiver()?,
            first: None,
            guard: Some(self.guard),
        })
    }
}

/// An accepted connection: checks packets before ipc-channel receives them.
#[derive(Debug)]
pub(crate) struct Guard {
    socket: Arc<OwnDescriptor<OwnedFd>>,
}

impl Guard {
    /// Bytes of ipc-channel's packet header: length of the packet, length of the message.
    const HEADER: usize = 2 * size_of::<usize>();

    /// Ends this channel from another thread.
    pub(crate) fn hang_up_handle(&self) -> HangUp {
        HangUp(Arc::downgrade(&self.socket))
    }

    /// The receiver of this connection.
    fn receiver<T>(&self) -> io::Result<OwnDescriptor<IpcReceiver<T>>>
    where
        T: Serialize + DeserializeOwned + Debug,
    {
        let (probe, receiver) = ipc::channel::<T>()?;
        let probe = own_channel(probe);
        let receiver = own_channel(receiver);
        let number = replaceable(&probe, &receiver).ok_or(io::ErrorKind::Unsupported)?;
        put_in_place(self.socket.get()?, number)?;
        // The number has just been given another socket.
        Ok(receiver.renewed())
    }

    /// The process that connected, as the kernel reports it; `None` if it is not visible from this
    /// process.
    #[allow(unsafe_code)]
    pub(crate) fn peer_process(&self) -> Option<ProcessId> {
        // Not with rustix, whose process numbers cannot be 0, which the kernel may report.
        let mut peer = libc::ucred {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
        let place = (&raw mut peer).cast();
        let room = &raw mut length;
        let number = self.socket.get().ok()?.as_raw_fd();
        // SAFETY: the kernel writes at most `length` bytes into a local of that size, and the
        // length.
        let failed =
            unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PEERCRED, place, room) };
        u32::try_from(peer.pid)
            .ok()
            .filter(|pid| failed == 0 && *pid != 0)
            .map(ProcessId::new)
    }

    /// Returns the socket, which becomes readable when the peer sends a packet or closes the
    /// channel.
    pub(crate) fn socket(&self) -> Result<BorrowedFd<'_>, DescriptorLost> {
        Ok(self.socket.get()?.as_fd())
    }

    /// Checks the next packet without receiving it. Returns `None` if none is queued and `mode` is
    /// `Try`.
    pub(crate) fn peek(&self, mode: ReceiveMode) -> io::Result<Option<Peek>> {
        let mut header = [0; Self::HEADER];
        let (bytes, attached) = match self.peek_into(&mut header, mode) {
            Err(error) if mode == ReceiveMode::Try && error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(None);
            }
            peeked => peeked?,
        };
        Ok(Some(match judge(&header, bytes) {
            _ if bytes == 0 => Peek::Closed,
            Some(length) => Peek::Whole { length, attached },
            None => Peek::Foreign,
        }))
    }

    /// The packet's true length, and whether descriptors are attached.
    fn peek_into(&self, header: &mut [u8], mode: ReceiveMode) -> io::Result<(usize, bool)> {
        let waiting = if mode == ReceiveMode::Try {
            RecvFlags::DONTWAIT
        } else {
            RecvFlags::empty()
        };
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC | waiting;
        loop {
            let socket = self.socket.get()?;
            let mut parts = [IoSliceMut::new(header)];
            match rustix::net::recvmsg(
                socket,
                &mut parts,
                &mut RecvAncillaryBuffer::default(),
                flags,
            ) {
                Err(rustix::io::Errno::INTR) => {}
                other => {
                    return other
                        .map(|got| (got.bytes, got.flags.contains(ReturnFlags::CTRUNC)))
                        .map_err(Into::into);
                }
            }
        }
    }
}

/// Returns whether a listening socket is shut down. In [`ReceiveMode::Wait`] blocks until a
/// shutdown, a connection or a signal. `accept` alone does not tell: on a nonblocking socket it
/// returns `EAGAIN` in either case.
fn poll_shutdown(listening: BorrowedFd<'_>, mode: ReceiveMode) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::from_borrowed_fd(listening, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let _ = poll(&mut polled, (mode == ReceiveMode::Try).then_some(&at_once)); // the caller retries
    polled
        .iter()
        .any(|polled| polled.revents().contains(PollFlags::HUP))
}

/// The length of the message, if the packet of `bytes` bytes holds all of it.
fn judge(header: &[u8; Guard::HEADER], bytes: usize) -> Option<usize> {
    let (packet, message) = header.split_first_chunk::<{ size_of::<usize>() }>()?;
    let message = usize::from_ne_bytes(message.try_into().ok()?);
    let whole =
        usize::from_ne_bytes(*packet) == bytes && message.checked_add(Guard::HEADER)? == bytes;
    whole.then_some(message)
}

/// The number of `receiver`, if its socket is provably the other end of `probe`: bytes that are
/// written to one of the two arrive at the other.
fn replaceable<T: Serialize>(
    probe: &OwnDescriptor<IpcSender<T>>,
    receiver: &OwnDescriptor<IpcReceiver<T>>,
) -> Option<RawFd> {
    let from = probe.number()?;
    let to = receiver.number()?;
    let mut mark = [0_u8; 16];
    getrandom::fill(&mut mark).ok()?;
    let sent = send_without_waiting(from, &mark);
    let mut seen = [0_u8; 17];
    (sent && peek_without_waiting(to, &mut seen) == Some(mark.len()) && seen.starts_with(&mark))
        .then_some(to)
}

#[allow(unsafe_code)]
fn send_without_waiting(number: RawFd, bytes: &[u8]) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: reads the slice, which lives through the call; the kernel checks the number.
    let sent = unsafe { libc::send(number, bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent) == Ok(bytes.len())
}

#[allow(unsafe_code)]
fn peek_without_waiting(number: RawFd, room: &mut [u8]) -> Option<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: writes at most the slice's length into it; the kernel checks the number.
    let seen = unsafe { libc::recv(number, room.as_mut_ptr().cast(), room.len(), flags) };
    usize::try_from(seen).ok()
}

/// Makes `number` refer to the same socket as `socket`.
#[allow(unsafe_code)]
fn put_in_place(socket: &OwnedFd, number: RawFd) -> io::Result<()> {
    // SAFETY: takes plain numbers. The second was just found to be ipc-channel's own; its receiver
    // works with any socket.
    match unsafe { libc::dup3(socket.as_raw_fd(), number, libc::O_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(packet: usize, message: usize) -> [u8; Guard::HEADER] {
        let mut header = [0; Guard::HEADER];
        header[..8].copy_from_slice(&packet.to_ne_bytes());
        header[8..].copy_from_slice(&message.to_ne_bytes());
        header
    }

    #[test]
    fn a_packet_is_whole_only_if_its_header_matches_it() {
        assert_eq!(judge(&header(20, 4), 20), Some(4));
        assert_eq!(judge(&header(21, 4), 20), None);
        assert_eq!(judge(&header(20, 1 << 40), 20), None);
        assert_eq!(judge(&header(20, usize::MAX), 20), None);
        assert_eq!(judge(&header(3, 0), 3), None);
    }

    #[test]
    fn only_the_two_ends_of_one_channel_are_recognised() {
        let ends = || {
            let (sender, receiver) = ipc::channel::<u64>().unwrap();
            (own_channel(sender), own_channel(receiver))
        };
        let one = ends();
        let other = ends();
        assert_eq!(replaceable(&one.0, &other.1), None);
        assert_eq!(
            replaceable(&one.0, &one.1),
            None,
            "the receiver has other data queued"
        );
        let fresh = ends();
        assert_eq!(replaceable(&fresh.0, &fresh.1), fresh.1.number());
    }
}
