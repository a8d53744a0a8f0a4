//! The socket on Linux.

#![allow(unsafe_code)]

use std::io::{self, BufReader};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::PATIENCE;

/// A connected socket.
pub(crate) type Connection = BufReader<UnixStream>;

/// The number of the user that may do everything.
const ROOT: u32 = 0;

/// The socket of a `record` command.
#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Listens for requests to this process.
    pub(crate) fn bind() -> io::Result<Self> {
        let address = address_of(std::process::id())?;
        UnixListener::bind_addr(&address).map(Self)
    }

    /// Waits for the next client of this user or of root. Others are disconnected.
    pub(crate) fn accept(&self) -> io::Result<Connection> {
        loop {
            let (stream, _) = self.0.accept()?;
            let user = peer_of(&stream)?.uid;
            if user == own_user() || user == ROOT {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(BufReader::new(stream));
            }
        }
    }
}

/// Connects to the `record` command with this number. `None` if there is none.
pub(crate) fn connect(pid: u32) -> io::Result<Option<Connection>> {
    let stream = match UnixStream::connect_addr(&address_of(pid)?) {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
        Err(error) => return Err(error),
    };
    let peer = peer_of(&stream)?;
    // Any user may listen at any name.
    let is_named = peer.pid.cast_unsigned() == pid;
    let is_trusted = peer.uid == own_user() || own_user() == ROOT;
    if !is_named || !is_trusted {
        return Ok(None);
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(Some(BufReader::new(stream)))
}

fn address_of(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("multiprocess-profiler/record/{pid}"))
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The process at the other end. Its number is 0 if this process cannot see it.
fn peer_of(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let length = libc::socklen_t::try_from(size_of_val(&peer));
    let mut length = length.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let place = (&raw mut peer).cast();
    let room = &raw mut length;
    let number = stream.as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes into a local of that size, and the length.
    let failed =
        unsafe { libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_PEERCRED, place, room) };
    match failed {
        0 => Ok(peer),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_talks_only_to_the_process_that_it_names() {
        let own = std::process::id();
        let other = own + 1;
        assert!(connect(own).unwrap().is_none(), "it does not listen");
        let _impostor = UnixListener::bind_addr(&address_of(other).unwrap()).unwrap();
        assert!(connect(other).unwrap().is_none(), "it is another process");
        let listener = Listener::bind().unwrap();
        assert!(connect(own).unwrap().is_some());
        assert!(listener.accept().is_ok());
    }
}
