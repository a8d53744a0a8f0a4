//! Linux: inherited descriptors, and a guard in front of ipc-channel's sockets.
//!
//! The guard exists because ipc-channel believes the header of every packet: a forged one makes
//! it wait for ever, panic, or abort the process. So the header is looked at first, with
//! `MSG_PEEK`, which also tells (as truncated control data) whether descriptors are attached,
//! without receiving them.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use profiler_core::ids::ProcessId;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, Shutdown, SocketAddrUnix};

/// Whether the process has more rights than whoever started it (`AT_SECURE`).
#[allow(unsafe_code)]
pub(crate) fn has_raised_rights() -> bool {
    // SAFETY: reads a value that the kernel left for the process; any argument is allowed.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether the process has exactly one thread; `false` if that cannot be known.
pub(crate) fn is_single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// A path of any bytes.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Number and inode of an open file.
pub(crate) fn identity(file: &File) -> io::Result<(i32, u64)> {
    Ok((file.as_raw_fd(), rustix::fs::fstat(file)?.st_ino))
}

/// The inherited descriptor under a new number, if it has this inode.
pub(crate) fn duplicate_inherited(number: i32, inode: u64) -> io::Result<File> {
    let copy = duplicate(number)?;
    match rustix::fs::fstat(&copy)?.st_ino == inode {
        true => Ok(File::from(copy)),
        false => Err(io::Error::new(io::ErrorKind::NotFound, "the descriptor is another file")),
    }
}

/// Closes the inherited descriptor, if it has this inode.
#[allow(unsafe_code)]
pub(crate) fn close_inherited(number: i32, inode: u64) -> io::Result<()> {
    drop(duplicate_inherited(number, inode)?);
    // SAFETY: the number came through exec, where no value of this program owned it, and by the
    // comparison above it still is the parent's file; the caller gives it up by this call.
    drop(unsafe { OwnedFd::from_raw_fd(number) });
    Ok(())
}

/// A new descriptor for the same open file. Works on any number: a closed one is an error.
#[allow(unsafe_code)]
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns plain numbers; the kernel checks the first.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor just now, for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Held while descriptors are looked through, so that one look-through does not take another's
/// short-lived duplicates for its own.
static LOOKING: Mutex<()> = Mutex::new(());

/// The sockets of this process that are bound to `path`: a listening one, and those accepted
/// from it. Each as its number and a descriptor of our own for the same socket.
fn sockets_bound_to(path: &Path, _looking: &MutexGuard<'_, ()>) -> Vec<(RawFd, OwnedFd)> {
    open_descriptors()
        .into_iter()
        .filter_map(|number| Some((number, duplicate(number).ok()?)))
        .filter(|(_, socket)| is_bound_to(socket, path))
        .collect()
}

fn is_bound_to(socket: &OwnedFd, path: &Path) -> bool {
    rustix::net::getsockname(socket)
        .ok()
        .and_then(|address| SocketAddrUnix::try_from(address).ok())
        .is_some_and(|address| address.path_bytes() == Some(path.as_os_str().as_encoded_bytes()))
}

/// All open descriptors, or, without `/proc`, all numbers that they commonly have.
fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return (3..1024).collect() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// A guard for the socket accepted from the listener at `path`; `None` if there is none.
/// From now on no process started later inherits that socket: ipc-channel accepts without
/// `SOCK_CLOEXEC`.
pub(crate) fn claim_accepted(path: &Path) -> Option<Guard> {
    let looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let (number, socket) = sockets_bound_to(path, &looking).into_iter().next()?;
    set_close_on_exec(number);
    Some(Guard { socket: Arc::new(socket) })
}

#[allow(unsafe_code)]
fn set_close_on_exec(number: RawFd) {
    // SAFETY: takes plain numbers; the flag has no effect on this process.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Ends all waiting on the sockets bound to `path`: an accept returns an error, a receive "closed".
pub(crate) fn interrupt_sockets(path: &Path) {
    let looking = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, socket) in sockets_bound_to(path, &looking) {
        let _ = rustix::net::shutdown(&socket, Shutdown::Both); // an error: nothing waits on it
    }
}

/// Runs `act` with all signals of this thread blocked, so that no call in it is interrupted.
pub(crate) fn with_signals_blocked<T>(act: impl FnOnce() -> T) -> T {
    let before = block_signals();
    let result = act();
    if let Some(before) = before {
        restore_signals(&before);
    }
    result
}

#[allow(unsafe_code)]
fn block_signals() -> Option<libc::sigset_t> {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the call writes a set through a pointer that is valid for one.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: both pointers are valid for a set, and the first holds one since the call above.
    let failed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    // SAFETY: a call that did not fail wrote the old set.
    (failed == 0).then(|| unsafe { before.assume_init() })
}

#[allow(unsafe_code)]
fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: the first pointer is a reference to a set, the second may be null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

/// What the first bytes of a packet say, and what is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peek {
    /// The other side is gone and nothing is left.
    Closed,
    /// One whole packet of ipc-channel, without descriptors.
    Whole {
        /// Bytes of its content.
        length: usize,
    },
    /// Anything else.
    Foreign,
}

/// Looks at packets before ipc-channel receives them.
#[derive(Debug)]
pub(crate) struct Guard {
    /// A second descriptor for the receiver's socket.
    socket: Arc<OwnedFd>,
}

/// Ends an accepted channel. Keeps no socket open.
#[derive(Clone, Debug)]
pub(crate) struct HangUp(Weak<OwnedFd>);

impl HangUp {
    /// Ends it now; what was sent can still be received.
    pub(crate) fn hang_up(&self) {
        if let Some(socket) = self.0.upgrade() {
            let _ = rustix::net::shutdown(&*socket, Shutdown::Both); // an error: it has ended
        }
    }
}

impl Guard {
    /// Bytes of ipc-channel's packet header: length of the packet, length of the message.
    const HEADER: usize = 2 * size_of::<usize>();

    /// What ends this channel from another thread.
    pub(crate) fn hang_up_handle(&self) -> HangUp {
        HangUp(Arc::downgrade(&self.socket))
    }

    /// The process that connected, as the kernel says it; `None` if it cannot be seen from here.
    #[allow(unsafe_code)]
    pub(crate) fn peer_process(&self) -> Option<ProcessId> {
        // Not by rustix, whose process numbers cannot be the 0 that the kernel may say.
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).ok()?;
        let (place, room) = ((&raw mut peer).cast(), &raw mut length);
        // SAFETY: the kernel writes at most `length` bytes into a local of that size, and the length.
        let failed = unsafe {
            libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, room)
        };
        u32::try_from(peer.pid).ok().filter(|pid| failed == 0 && *pid != 0).map(ProcessId::new)
    }

    /// Waits for the next packet and judges it, leaving it where it is.
    pub(crate) fn peek(&self) -> io::Result<Peek> {
        let mut header = [0; Self::HEADER];
        let (bytes, attached) = self.peek_into(&mut header)?;
        Ok(match judge(&header, bytes) {
            _ if bytes == 0 => Peek::Closed,
            Some(length) if !attached => Peek::Whole { length },
            _ => Peek::Foreign,
        })
    }

    /// The packet's true length, and whether descriptors are attached.
    fn peek_into(&self, header: &mut [u8]) -> io::Result<(usize, bool)> {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        loop {
            let mut parts = [IoSliceMut::new(header)];
            match rustix::net::recvmsg(&self.socket, &mut parts, &mut RecvAncillaryBuffer::default(), flags) {
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

/// The length of the message, if the packet of `bytes` bytes holds all of it.
fn judge(header: &[u8; Guard::HEADER], bytes: usize) -> Option<usize> {
    let (packet, message) = header.split_first_chunk::<{ size_of::<usize>() }>()?;
    let message = usize::from_ne_bytes(message.try_into().ok()?);
    let whole = usize::from_ne_bytes(*packet) == bytes && message.checked_add(Guard::HEADER)? == bytes;
    whole.then_some(message)
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
    fn only_a_packet_that_is_what_it_says_is_whole() {
        assert_eq!(judge(&header(20, 4), 20), Some(4));
        assert_eq!(judge(&header(21, 4), 20), None);
        assert_eq!(judge(&header(20, 1 << 40), 20), None);
        assert_eq!(judge(&header(20, usize::MAX), 20), None);
        assert_eq!(judge(&header(3, 0), 3), None);
    }

    #[test]
    fn a_closed_descriptor_cannot_be_duplicated() {
        assert!(duplicate(-1).is_err());
        assert!(duplicate_inherited(i32::MAX, 1).is_err());
    }
}
