//! Tests of the set's reports, and of its behaviour when the program closes its descriptors.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, FromRawFd};

use super::super::tests::hello;
use super::super::{ToParent, inherited};
use super::*;
use crate::environment::Token;
use crate::message::RequestId;
use crate::transport::{ChildEnds, ParentEnds, TransportError};
use profiler_core::ids::ProcessId;

/// Longer than any wait in these tests takes.
const LONG: Duration = Duration::from_secs(60);
const AT_ONCE: Duration = Duration::ZERO;

fn pair() -> (ParentEnds, ChildEnds) {
    let token = Token::generate().unwrap();
    let (listener, theirs) = inherited::Listener::new().unwrap();
    let child = inherited::connect(theirs, hello(&token)).unwrap();
    let accepted = listener
        .accept(&token, ProcessId::new(std::process::id()))
        .unwrap();
    (accepted.ends, child)
}

const fn numbers() -> (ChannelNumber, ChannelNumber) {
    (ChannelNumber::FIRST, ChannelNumber::FIRST.next())
}

const fn done(number: u64) -> ToParent {
    ToParent::Done {
        request: RequestId::new(number),
    }
}

#[test]
fn only_a_channel_with_a_message_or_a_closed_peer_is_ready() {
    let set = ReadySet::new().unwrap();
    let ((mut one, mut child), (other, _other_child)) = (pair(), pair());
    set.add(numbers().0, one.receiver.socket().unwrap())
        .unwrap();
    set.add(numbers().1, other.receiver.socket().unwrap())
        .unwrap();
    assert_eq!(set.wait(AT_ONCE).unwrap().channels, []);
    child.sender.send(&done(7)).unwrap();
    assert_eq!(set.wait(LONG).unwrap().channels, [numbers().0]);
    assert_eq!(one.receiver.try_recv().unwrap(), Some(done(7)));
    assert_eq!(
        one.receiver.try_recv().unwrap(),
        None,
        "`try_recv` does not wait for the next message"
    );
    drop(child);
    assert_eq!(set.wait(LONG).unwrap().channels, [numbers().0]);
    assert!(matches!(
        one.receiver.try_recv(),
        Err(TransportError::Disconnected)
    ));
}

#[test]
fn a_removed_socket_is_not_reported_until_it_is_added_again() {
    let set = ReadySet::new().unwrap();
    let (parent, mut child) = pair();
    let socket = parent.receiver.socket().unwrap();
    set.add(numbers().0, socket).unwrap();
    set.remove(socket);
    child.sender.send(&done(1)).unwrap();
    assert_eq!(set.wait(AT_ONCE).unwrap().channels, []);
    set.add(numbers().0, socket).unwrap();
    set.add(numbers().0, socket).unwrap();
    assert_eq!(set.wait(LONG).unwrap().channels, [numbers().0]);
}

#[test]
fn a_wake_up_ends_one_wait() {
    let set = ReadySet::new().unwrap();
    set.wake();
    set.wake();
    assert!(set.wait(LONG).unwrap().woken);
    assert!(!set.wait(AT_ONCE).unwrap().woken);
}

#[test]
fn a_set_that_the_program_replaced_is_neither_used_nor_closed() {
    let set = ReadySet::new().unwrap();
    let other = ReadySet::new().unwrap();
    let number = set.epoll.as_ref().unwrap().as_raw_fd();
    // SAFETY: both numbers are open; that of `set` is replaced on purpose, by an `epoll` of another
    // owner.
    let result = unsafe { libc::dup2(other.epoll.as_ref().unwrap().as_raw_fd(), number) };
    assert_eq!(result, number);
    other.wake();
    assert!(!set.is_ours());
    assert!(
        set.wait(LONG).is_err(),
        "`wait` must not read the events of the other set"
    );
    let (parent, _child) = pair();
    let refused = set
        .add(numbers().0, parent.receiver.socket().unwrap())
        .unwrap_err();
    assert!(DescriptorLost::is_in(&refused), "{refused}");
    drop(set);
    assert!(other.wait(LONG).unwrap().woken);
    // SAFETY: the number was made above and has no other owner.
    let still_open = unsafe { OwnedFd::from_raw_fd(number) };
    assert!(rustix::io::fcntl_getfd(still_open.as_fd()).is_ok());
}
