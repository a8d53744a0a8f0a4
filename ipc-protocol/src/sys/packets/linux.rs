//! On Linux: one end of a connected pair of packet sockets, and the safe reception of packets.
//!
//! ```text
//! parent's end ◀── SOCK_SEQPACKET ──▶ child's end, inherited by number or connected by its process
//!   SO_PASSCRED: every packet comes with the sender's process number, written by the kernel
//! ```
//!
//! Used by [`crate::transport::inherited`] and [`crate::transport::joining`]. Invariants:
//!
//! - A packet is received into existing memory, with room for the sender's number only, so a packet
//!   cannot make the receiver grow or hold a descriptor.
//! - A packet with attached descriptors is not received, because the kernel would close them on
//!   this thread, and closing a socket can take as long as its sender wishes (`SO_LINGER`).
//! - A call that a signal interrupts is repeated.
//! - A socket that the program has closed is neither used nor closed.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use profiler_sys::{DescriptorLost, OwnDescriptor, OwnFile};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags,
    SocketType, sockopt,
};

use super::{Closer, Packet};
use crate::sys::ReceiveMode;

/// Requested buffer size for either direction, in bytes; the system may allow less. Enough for a
/// largest frame and all other messages that may be outstanding.
const ROOM: usize = 256 * 1024;

/// Room for one `ucred` and for no descriptor after it: the kernel then destroys attached
/// descriptors, and reports this with `MSG_CTRUNC`.
const CONTROL: usize = size_of::<libc::cmsghdr>() + size_of::<libc::ucred>().next_multiple_of(8);

/// Control data as the kernel writes it.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    sender: libc::ucred,
    padding: [u8; CONTROL - size_of::<libc::cmsghdr>() - size_of::<libc::ucred>()],
}

/// One end of the pair.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    /// `None` only while the end is dropped.
    descriptor: Option<OwnFile>,
    /// The process that keeps this end and hands over the other one; `None` for the end that was
    /// handed over.
    parent: Option<u32>,
    /// Closes it if that may take long.
    closer: Arc<Closer>,
}

impl PacketSocket {
    /// Creates a connected pair: the end to keep, and the end to hand over.
    pub(crate) fn pair() -> io::Result<(Self, File)> {
        let kind = SocketType::SEQPACKET;
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        for end in [&ours, &theirs] {
            sockopt::set_socket_passcred(end, true)?;
            let _ = sockopt::set_socket_send_buffer_size(end, ROOM); // the default is enough, too
        }
        Ok((
            Self {
                descriptor: Some(OwnFile::from(File::from(ours))),
                parent: Some(std::process::id()),
                closer: Arc::default(),
            },
            File::from(theirs),
        ))
    }

    /// The parent's end of a connection that a process has made.
    /// `closer` is that of its listener.
    pub(crate) fn accepted(socket: OwnedFd, closer: Arc<Closer>) -> io::Result<Self> {
        sockopt::set_socket_passcred(&socket, true)?;
        let _ = sockopt::set_socket_send_buffer_size(&socket, ROOM); // the default is enough, too
        Ok(Self {
            descriptor: Some(OwnFile::from(File::from(socket))),
            parent: Some(std::process::id()),
            closer,
        })
    }

    /// Sends one packet with a file attached. `WouldBlock` if there is no room for it now.
    pub(crate) fn send_with(&self, packet: &[u8], file: &File) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file.as_fd()];
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match rustix::net::sendmsg(self.get()?, &[IoSlice::new(packet)], &mut control, flags) {
                Err(rustix::io::Errno::INTR) => {}
                sent => return Ok(sent.map(|_| ())?),
            }
        }
    }

    /// The end that was handed over.
    pub(crate) fn given(file: OwnFile) -> io::Result<Self> {
        Ok(Self {
            descriptor: Some(file),
            parent: None,
            closer: Arc::default(),
        })
    }

    /// Sends one packet; without `wait`, `WouldBlock` if there is no room for it now.
    pub(crate) fn send(&self, packet: &[u8], wait: bool) -> io::Result<()> {
        let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
        again(|| Ok(send(self.get()?.as_raw_fd(), packet, flags))).map(|_| ())
    }

    /// Receives the next packet, truncated to `room`. Returns `None` if none is queued and `mode`
    /// is `Try`.
    pub(crate) fn receive(&self, room: &mut [u8], mode: ReceiveMode) -> io::Result<Option<Packet>> {
        let waiting = if mode == ReceiveMode::Try {
            libc::MSG_DONTWAIT
        } else {
            0
        };
        let packet = self.receive_with(room, libc::MSG_PEEK | waiting)?;
        if let Some(Packet::Whole { .. }) = packet {
            // Removes the packet, which was read completely.
            self.receive_with(&mut [], libc::MSG_DONTWAIT)?;
        }
        Ok(packet)
    }

    fn receive_with(&self, room: &mut [u8], flags: i32) -> io::Result<Option<Packet>> {
        let mut control = MaybeUninit::<Control>::zeroed();
        let mut part = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: room.len(),
        };
        let mut message = MaybeUninit::<libc::msghdr>::zeroed();
        // SAFETY: all fields of the header are numbers and pointers, for which zero is a valid
        // value.
        #[allow(unsafe_code)]
        let message = unsafe { message.assume_init_mut() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        let received = again(|| {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = CONTROL as _;
            message.msg_flags = 0;
            Ok(receive(self.get()?.as_raw_fd(), message, flags))
        });
        let length = match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            received => received?,
        };
        // SAFETY: the control data was initialised with zeroes, and all its fields are plain
        // numbers.
        #[allow(unsafe_code)]
        let control = unsafe { control.assume_init_ref() };
        Ok(Some(judge(length, message, control)))
    }

    /// Returns the socket, which becomes readable when the peer sends a packet or closes the
    /// channel.
    pub(crate) fn socket(&self) -> Result<BorrowedFd<'_>, DescriptorLost> {
        Ok(self.get()?.as_fd())
    }

    /// Whether the socket is still open, that is, the program has not closed it.
    pub(crate) fn is_ours(&self) -> bool {
        self.descriptor.as_ref().is_some_and(OwnDescriptor::is_ours)
    }

    /// Ends all waiting and sending on both ends; sent data can still be received.
    pub(crate) fn hang_up(&self) {
        if let Ok(socket) = self.get() {
            let _ = rustix::net::shutdown(socket, Shutdown::Both); // an error: it is already closed
        }
    }

    fn get(&self) -> Result<&File, DescriptorLost> {
        self.descriptor.as_ref().ok_or(DescriptorLost)?.get()
    }

    /// Whether packets are queued that will not be received. The other end cannot send any more.
    fn has_unread(&self) -> bool {
        self.hang_up();
        let next = self.receive_with(&mut [], libc::MSG_PEEK | libc::MSG_DONTWAIT);
        !matches!(next, Ok(None | Some(Packet::Closed)) | Err(_))
    }
}

impl Drop for PacketSocket {
    /// Closes the descriptor. The kernel then also closes descriptors that a hostile child has
    /// attached to unread packets. This may take long, so it runs on a separate thread.
    fn drop(&mut self) {
        // A fork of the parent must not end the channel.
        let is_slow = self.parent == Some(std::process::id()) && self.has_unread();
        if let Some(descriptor) = self.descriptor.take()
            && is_slow
        {
            self.closer.close(descriptor);
        }
    }
}

/// The kernel's report on a packet. A packet has a sender. The end of the channel has length 0,
/// like an empty packet, but no sender.
fn judge(length: usize, message: &libc::msghdr, control: &Control) -> Packet {
    let has_sender = message.msg_controllen > 0
        && (control.header.cmsg_level, control.header.cmsg_type)
            == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
    match () {
        () if message.msg_flags & libc::MSG_CTRUNC != 0 => Packet::Attached,
        () if message.msg_flags & libc::MSG_TRUNC != 0 => Packet::TooLarge,
        () if has_sender => Packet::Whole {
            length,
            sender: u32::try_from(control.sender.pid).unwrap_or(0),
        },
        () if length == 0 => Packet::Closed,
        () => Packet::Attached,
    }
}

#[allow(unsafe_code)]
fn send(socket: RawFd, packet: &[u8], flags: i32) -> isize {
    // SAFETY: reads the slice, which lives through the call.
    unsafe { libc::send(socket, packet.as_ptr().cast(), packet.len(), flags) }
}

#[allow(unsafe_code)]
fn receive(socket: RawFd, message: &mut libc::msghdr, flags: i32) -> isize {
    // SAFETY: the caller's header names two places that it holds by unique reference, with their
    // true lengths; the kernel writes inside them.
    unsafe { libc::recvmsg(socket, message, libc::MSG_CMSG_CLOEXEC | flags) }
}

/// Repeats a call while a signal interrupts it.
fn again(mut call: impl FnMut() -> io::Result<isize>) -> io::Result<usize> {
    loop {
        match usize::try_from(call()?) {
            Ok(length) => return Ok(length),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}
