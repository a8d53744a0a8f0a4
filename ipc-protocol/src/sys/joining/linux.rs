//! On Linux: the listening socket of a session, the socket of a process that asks to join, and what
//! the kernel says about the two processes.
//!
//! ```text
//! session: listen ◀── connect ── process       SOCK_SEQPACKET, at a path in a directory of mode 0700
//!          accept ◀── request ──               SO_PEERCRED, SO_PEERPIDFD: the process that connected
//!                 ─── answer, SCM_RIGHTS ──▶   SO_PEERCRED: the process that listens
//! ```
//!
//! Invariants: no call waits for longer than its deadline; no call raises `SIGPIPE`; a call that a
//! signal interrupts is repeated; every descriptor has `CLOEXEC` from the moment it exists.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use profiler_core::ids::{ProcessId, UserId};
use profiler_sys::{DescriptorLost, OwnDescriptor, OwnFile, above_streams};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, Shutdown,
    SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use super::{Deadline, Peer};

/// Processes that may wait to be accepted. The system reduces it to `net.core.somaxconn`, which is
/// 4096 by default.
const BACKLOG: i32 = 4096;

/// Longest path in the address of a socket.
const MAX_SOCKET_PATH: usize = 107;

/// The socket option that returns a descriptor of the peer's process, since Linux 6.5. The number
/// is the same on all architectures that the profiler supports.
const SO_PEERPIDFD: libc::c_int = 77;

/// The listening socket of a session.
#[derive(Debug)]
pub(crate) struct SessionSocket {
    socket: OwnDescriptor<OwnedFd>,
    path: PathBuf,
}

impl SessionSocket {
    /// Listens at `path`, which does not exist.
    pub(crate) fn bind(path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: OwnDescriptor::new(listen(path)?),
            path: path.to_owned(),
        })
    }

    /// Listens again at the same path, after the program has closed the socket.
    pub(crate) fn renew(&mut self) -> io::Result<()> {
        let _ = std::fs::remove_file(&self.path); // an error: it is gone already
        self.socket = OwnDescriptor::new(listen(&self.path)?);
        Ok(())
    }

    /// Accepts the next process. Returns `None` if none waits.
    pub(crate) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        loop {
            match rustix::net::accept_with(self.socket.get()?, SocketFlags::CLOEXEC) {
                Ok(socket) => return Ok(Some(socket)),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The socket, which becomes readable when a process connects.
    pub(crate) fn socket(&self) -> Result<BorrowedFd<'_>, DescriptorLost> {
        Ok(self.socket.get()?.as_fd())
    }
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // The accepted sockets inherit it, so the first packet has a sender, too.
    sockopt::set_socket_passcred(&socket, true)?;
    let (address, _directory) = address_of(path)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// The address of the socket at `path`. A path that is too long for an address is reached through a
/// descriptor of its directory, which must stay open while the address is used.
fn address_of(path: &Path) -> io::Result<(SocketAddrUnix, Option<OwnedFd>)> {
    if path.as_os_str().len() <= MAX_SOCKET_PATH {
        return Ok((SocketAddrUnix::new(path)?, None));
    }
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // A descriptor with `O_PATH` does not release locks when it is closed.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(directory, flags, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/thread-self/fd/{}", directory.as_raw_fd())).join(name);
    Ok((SocketAddrUnix::new(&short)?, Some(directory)))
}

/// The socket of a process that asks to join. The program runs meanwhile and may close it at any
/// time, so every call checks first that the number is still that of the socket.
#[derive(Debug)]
pub(crate) struct Asker(OwnFile);

impl Asker {
    /// Connects to the session that listens at `path`. `TimedOut` if the session does not accept
    /// processes fast enough.
    pub(crate) fn connect(path: &Path, deadline: &Deadline) -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        let asker = Self(File::from(above_streams(socket)?).into());
        let (address, _directory) = address_of(path)?;
        loop {
            // `connect` waits only if too many processes wait to be accepted.
            let left = deadline.left().ok_or(io::ErrorKind::TimedOut)?;
            let left = left.max(Duration::from_micros(1)); // zero would be no limit
            asker.limit_connect(Some(left))?;
            match rustix::net::connect(asker.0.get()?, &address) {
                Ok(()) => break,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        asker.limit_connect(None)?;
        Ok(asker)
    }

    fn limit_connect(&self, most: Option<Duration>) -> io::Result<()> {
        let socket = self.0.get()?;
        Ok(sockopt::set_socket_timeout(
            socket,
            sockopt::Timeout::Send,
            most,
        )?)
    }

    /// The process that listens.
    pub(crate) fn peer(&self) -> io::Result<Peer> {
        credentials(self.0.get()?.as_fd())
    }

    /// Sends one packet. Does not wait.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::send(self.0.get()?, packet, flags) {
                Err(Errno::INTR) => {}
                sent => return Ok(sent.map(|_| ())?),
            }
        }
    }

    /// Receives one packet into `room`, and the file that is attached to it. `None` if none comes
    /// before the deadline; the length is 0 if the session has closed the channel.
    pub(crate) fn receive(
        &self,
        room: &mut [u8],
        deadline: &Deadline,
    ) -> io::Result<Option<(usize, Option<OwnFile>)>> {
        loop {
            let Some(left) = deadline.left() else {
                return Ok(None);
            };
            let mut polled = [PollFd::new(self.0.get()?, PollFlags::IN)];
            let timeout = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            let ready = match rustix::event::poll(&mut polled, Some(&timeout)) {
                Err(Errno::INTR) => 0,
                polled => polled?,
            };
            if ready == 0 {
                continue;
            }
            if let Some(received) = self.receive_now(room)? {
                return Ok(Some(received));
            }
        }
    }

    /// `None` if no packet is there.
    fn receive_now(&self, room: &mut [u8]) -> io::Result<Option<(usize, Option<OwnFile>)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(room)];
        let socket = self.0.get()?;
        let received = match rustix::net::recvmsg(socket, &mut parts, &mut control, flags) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(None),
            received => received?,
        };
        let mut file = None;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                // The first file is the pool; the session attaches no other one.
                files.for_each(|each| _ = file.get_or_insert(each));
            }
        }
        let file = file.map(above_streams).transpose()?;
        Ok(Some((
            received.bytes,
            file.map(|file| File::from(file).into()),
        )))
    }

    /// The socket.
    #[cfg(test)]
    pub(crate) fn socket(&self) -> &OwnFile {
        &self.0
    }

    /// Tells the session that this process does not join, even if a forked child holds the socket
    /// open.
    pub(crate) fn hang_up(&self) {
        if let Ok(socket) = self.0.get() {
            let _ = rustix::net::shutdown(socket, Shutdown::Both); // an error: it is closed already
        }
    }

    /// The socket, as one end of a channel like an inherited one.
    pub(crate) fn into_channel(self) -> io::Result<OwnFile> {
        // Only now: a socket that asks for credentials gets a name when it connects.
        sockopt::set_socket_passcred(self.0.get()?, true)?;
        Ok(self.0)
    }
}

/// The process that has connected to an accepted socket, and a descriptor of it if the kernel
/// provides one.
pub(crate) fn peer_of(socket: BorrowedFd<'_>) -> io::Result<(Peer, Option<OwnedFd>)> {
    let peer = credentials(socket)?;
    Ok((peer, process_descriptor(socket)))
}

/// The user of this process.
pub(crate) fn own_user() -> UserId {
    UserId::new(rustix::process::geteuid().as_raw())
}

/// The credentials of the peer. Not with rustix, whose process numbers cannot be 0, which the
/// kernel may report.
#[allow(unsafe_code)]
fn credentials(socket: BorrowedFd<'_>) -> io::Result<Peer> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = length_of(&peer)?;
    let place = (&raw mut peer).cast();
    let room = &raw mut length;
    let number = socket.as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes into a local of that size, and the length.
    let failed =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PEERCRED, place, room) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let pid = u32::try_from(peer.pid).ok().filter(|pid| *pid != 0);
    Ok(Peer {
        pid: pid.map(ProcessId::new),
        user: UserId::new(peer.uid),
    })
}

/// A descriptor of the peer's process. `None` on kernels that do not provide it, and for a process
/// that has been reaped.
#[allow(unsafe_code)]
fn process_descriptor(socket: BorrowedFd<'_>) -> Option<OwnedFd> {
    let mut descriptor: libc::c_int = -1;
    let mut length = length_of(&descriptor).ok()?;
    let place = (&raw mut descriptor).cast();
    let room = &raw mut length;
    let number = socket.as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes into a local of that size, and the length.
    let failed = unsafe { libc::getsockopt(number, libc::SOL_SOCKET, SO_PEERPIDFD, place, room) };
    if failed != 0 || descriptor < 0 {
        return None;
    }
    // SAFETY: the kernel has just created this descriptor, and no other value owns it.
    Some(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn length_of<T>(_: &T) -> io::Result<libc::socklen_t> {
    libc::socklen_t::try_from(size_of::<T>()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
