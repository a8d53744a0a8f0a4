//! The peers of unix sockets, from the system's diagnosis of sockets (`sock_diag(7)`).
//!
//! Used by `resolver`. A question and its answer are one message each, and need no rights.
//! Invariant: a look-up never waits, because the system answers while it takes the question.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const AF_UNIX: u8 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
/// The number of bytes of the heads of an answer.
const HEADS: usize = 32;

/// The inode of the socket that is connected to the one with this inode. `None` if it is not a unix
/// socket, or is not connected.
pub(crate) fn peer(inode: u64) -> Option<u64> {
    let inode = u32::try_from(inode).ok()?;
    // A channel for each question: a host may close descriptors that it does not know.
    let protocol = Some(netlink::SOCK_DIAG);
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let channel = socket_with(family, kind, SocketFlags::CLOEXEC, protocol).ok()?;
    send(&channel, &question(inode), SendFlags::DONTWAIT).ok()?;
    let mut room = [0; 512];
    let (len, _) = recv(&channel, &mut room[..], RecvFlags::DONTWAIT).ok()?;
    // A socket whose other end is closed has the peer 0.
    peer_in(room.get(..len)?)
        .filter(|peer| *peer != 0)
        .map(u64::from)
}

fn question(inode: u32) -> Vec<u8> {
    let body = [u32::MAX, inode, UDIAG_SHOW_PEER, u32::MAX, u32::MAX];
    let len: u32 = 16 + 4 + 20;
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([AF_UNIX, 0, 0, 0]);
    bytes.extend(body.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

/// The peer that an answer names.
fn peer_in(answer: &[u8]) -> Option<u32> {
    let len = usize::try_from(u32_at(answer, 0)?).ok()?;
    if u16_at(answer, 4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let mut attributes = answer.get(HEADS..len.min(answer.len()))?;
    loop {
        let size = usize::from(u16_at(attributes, 0)?);
        if u16_at(attributes, 2)? == UNIX_DIAG_PEER {
            return u32_at(attributes, 4);
        }
        attributes = attributes.get(size.max(4).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    fn inode(socket: &UnixStream) -> u64 {
        let link = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let name = std::fs::read_link(link).unwrap();
        let name = name.to_str().unwrap().trim_start_matches("socket:[");
        name.trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn each_end_of_a_pair_is_the_peer_of_the_other() {
        let (one, other) = UnixStream::pair().unwrap();
        assert_eq!(peer(inode(&one)), Some(inode(&other)));
        assert_eq!(peer(inode(&other)), Some(inode(&one)));
    }

    #[test]
    fn a_socket_without_a_peer_and_an_unknown_inode_have_none() {
        assert_eq!(peer(u64::MAX), None);
        assert_eq!(peer(1), None);
        let (one, other) = UnixStream::pair().unwrap();
        let inode = inode(&one);
        drop(other);
        assert_eq!(peer(inode), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_accepted(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = peer_in(&bytes);
        }
    }
}
