//! Tests of the rules of a transport, on every transport.

use super::*;
use crate::environment::Token;
use crate::limits;
use crate::message::{Hello, PROTOCOL_VERSION, RequestId};
use profiler_core::ids::{ProcessId, ProcessStart};

/// Asserts that a value matches a pattern. The message contains the value.
macro_rules! assert_matches {
    ($value:expr, $pattern:pat $(if $guard:expr)?) => {
        match $value {
            $pattern $(if $guard)? => {}
            ref other => panic!("{other:?} is not {}", stringify!($pattern)),
        }
    };
}

pub(super) use assert_matches;

/// A `Hello` of this process.
pub(super) fn hello(token: &Token) -> Hello {
    Hello {
        version: PROTOCOL_VERSION,
        token: token.clone(),
        pid: ProcessId::new(std::process::id()),
        start: ProcessStart::new(0),
        name: "child".into(),
    }
}

/// Runs `act` on a separate thread.
pub(super) fn on_thread<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new()
        .name("test".into())
        .spawn(act)
        .unwrap()
}

fn ipc_pair() -> (ParentEnds, ChildEnds) {
    let token = Token::generate().unwrap();
    let listener = ipc_channel::Listener::new().unwrap();
    let name = listener.name().to_owned();
    let greeting = hello(&token);
    let child = on_thread(move || ipc_channel::connect(&name, greeting).unwrap());
    let accepted = listener.accept(&token).unwrap();
    assert_eq!(accepted.hello, hello(&token));
    (accepted.ends, child.join().unwrap())
}

/// Both ends as a parent and its child have them; here this process is the child.
#[cfg(all(target_os = "linux", not(profiler_portable)))]
pub(super) fn inherited_pair() -> (ParentEnds, ChildEnds) {
    let token = Token::generate().unwrap();
    let (listener, theirs) = inherited::Listener::new().unwrap();
    let child = inherited::connect(theirs, hello(&token)).unwrap();
    let accepted = listener
        .accept(&token, ProcessId::new(std::process::id()))
        .unwrap();
    assert_eq!(accepted.hello, hello(&token));
    (accepted.ends, child)
}

const fn done(number: u64) -> ToParent {
    ToParent::Done {
        request: RequestId::new(number),
    }
}

fn order_is_kept(mut parent: ParentEnds, mut child: ChildEnds) {
    let sender = on_thread(move || (0..1000).for_each(|n| child.sender.send(&done(n)).unwrap()));
    for number in 0..1000 {
        assert_eq!(parent.receiver.recv().unwrap(), done(number));
    }
    sender.join().unwrap();
}

fn both_directions_work(mut parent: ParentEnds, mut child: ChildEnds) {
    let stop = ToChild::Stop {
        request: RequestId::new(9),
    };
    parent.sender.send(&stop).unwrap();
    assert_eq!(child.receiver.recv().unwrap(), stop);
    child.sender.send(&done(9)).unwrap();
    assert_eq!(parent.receiver.recv().unwrap(), done(9));
}

fn queued_messages_arrive_after_the_sender_is_gone(mut parent: ParentEnds, mut child: ChildEnds) {
    (0..50).for_each(|number| child.sender.send(&done(number)).unwrap());
    drop(child);
    for number in 0..50 {
        assert_eq!(parent.receiver.recv().unwrap(), done(number));
    }
    for _ in 0..2 {
        assert_matches!(parent.receiver.recv(), Err(TransportError::Disconnected));
    }
}

fn a_gone_peer_is_seen_by_the_sender(mut parent: ParentEnds, child: ChildEnds) {
    drop(child);
    let stop = ToChild::Stop {
        request: RequestId::new(1),
    };
    let error = parent.sender.send(&stop).unwrap_err();
    assert!(matches!(error, TransportError::Disconnected), "{error}");
}

fn an_oversize_frame_is_refused_by_the_sender(mut parent: ParentEnds, mut child: ChildEnds) {
    let error = child
        .sender
        .frames
        .send(&vec![0; limits::MAX_FRAME_BYTES + 1])
        .unwrap_err();
    assert_matches!(
        error,
        TransportError::Protocol(ProtocolError::TooLarge { .. })
    );
    child.sender.send(&done(1)).unwrap();
    assert_eq!(parent.receiver.recv().unwrap(), done(1));
}

fn the_largest_frame_arrives(mut parent: ParentEnds, mut child: ChildEnds) {
    let frame: Vec<u8> = (0..limits::MAX_FRAME_BYTES)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();
    child.sender.frames.send(&frame).unwrap();
    assert!(parent.receiver.frames.recv().unwrap() == frame);
}

fn a_wrong_version_does_not_end_the_channel(mut parent: ParentEnds, mut child: ChildEnds) {
    child.sender.frames.send(&[0xff, 0xff, 1, 2, 3]).unwrap();
    let error = parent.receiver.recv().unwrap_err();
    let wrong = ProtocolError::WrongVersion {
        theirs: 0xffff,
        ours: PROTOCOL_VERSION,
    };
    assert_matches!(&error, TransportError::Protocol(e) if *e == wrong);
    assert!(error.is_recoverable());
    child.sender.send(&done(2)).unwrap();
    assert_eq!(parent.receiver.recv().unwrap(), done(2));
}

fn an_undecodable_frame_does_not_end_the_channel(mut parent: ParentEnds, mut child: ChildEnds) {
    let version = u16::try_from(PROTOCOL_VERSION).unwrap().to_le_bytes();
    for frame in [&[][..], &[1], &[version[0], version[1], 0xee, 0xee]] {
        child.sender.frames.send(frame).unwrap();
        assert_matches!(parent.receiver.recv(), Err(TransportError::Protocol(_)));
    }
    child.sender.send(&done(3)).unwrap();
    assert_eq!(parent.receiver.recv().unwrap(), done(3));
}

macro_rules! every_transport {
    ($($rule:ident)*) => {
        mod in_process_channel { $(#[test] fn $rule() { let (parent, child) = super::in_process::pair(); super::$rule(parent, child); })* }
        mod between_processes { $(#[test] fn $rule() { let (parent, child) = super::ipc_pair(); super::$rule(parent, child); })* }
        #[cfg(all(target_os = "linux", not(profiler_portable)))]
        mod inherited_socket { $(#[test] fn $rule() { let (parent, child) = super::inherited_pair(); super::$rule(parent, child); })* }
    };
}

every_transport! {
    order_is_kept
    both_directions_work
    queued_messages_arrive_after_the_sender_is_gone
    a_gone_peer_is_seen_by_the_sender
    an_oversize_frame_is_refused_by_the_sender
    the_largest_frame_arrives
    a_wrong_version_does_not_end_the_channel
    an_undecodable_frame_does_not_end_the_channel
}
