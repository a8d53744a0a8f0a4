//! Tests specific to the transport of untrusted children. Hostile packets are in
//! `integration-tests/tests/tricks.rs`, hostile processes in the other tests of
//! `integration-tests`.

use std::os::fd::AsFd;

use rustix::net::sockopt;

use super::super::tests::{assert_matches, hello, on_thread};
use super::*;
use crate::codec::{self, ProtocolError};
use crate::message::{PROTOCOL_VERSION, RequestId, ToChild};

fn token() -> Token {
    Token::from_bytes([3; 16])
}

fn own() -> ProcessId {
    ProcessId::new(std::process::id())
}

/// The error for a child whose first packet is `frame`.
fn first(frame: &[u8]) -> TransportError {
    let (listener, theirs) = Listener::new().unwrap();
    PacketSocket::given(theirs.into())
        .unwrap()
        .send(frame, false)
        .unwrap();
    listener.accept(&token(), own()).unwrap_err()
}

/// An accepted child, and its raw end.
fn accepted() -> (Accepted, File) {
    let (listener, theirs) = Listener::new().unwrap();
    let greeting = codec::encode(&ToParent::Hello(hello(&token()))).unwrap();
    PacketSocket::given(theirs.try_clone().unwrap().into())
        .unwrap()
        .send(&greeting, false)
        .unwrap();
    (listener.accept(&token(), own()).unwrap(), theirs)
}

const fn stop() -> ToChild {
    ToChild::Stop {
        request: RequestId::new(1),
    }
}

#[test]
fn packets_of_a_process_that_was_not_spawned_are_refused() {
    let (listener, theirs) = Listener::new().unwrap();
    let _child = connect(theirs, hello(&token())).unwrap();
    let error = listener.accept(&token(), ProcessId::new(1)).unwrap_err();
    assert_matches!(
        error,
        TransportError::PeerMisbehaved("a packet of another process")
    );
}

#[test]
fn a_hello_that_names_another_process_is_refused() {
    let greeting = Hello {
        pid: ProcessId::new(1),
        ..hello(&token())
    };
    let error = first(&codec::encode(&ToParent::Hello(greeting)).unwrap());
    assert_matches!(
        error,
        TransportError::PeerMisbehaved("the hello of another process")
    );
}

#[test]
fn a_first_packet_other_than_a_valid_hello_is_refused() {
    let done = codec::encode(&ToParent::Done {
        request: RequestId::new(1),
    })
    .unwrap();
    assert_matches!(
        first(&done),
        TransportError::PeerMisbehaved("a message before Hello")
    );
    let stranger = ToParent::Hello(hello(&Token::from_bytes([4; 16])));
    assert_matches!(
        first(&codec::encode(&stranger).unwrap()),
        TransportError::WrongToken
    );
    let newer = Hello {
        version: PROTOCOL_VERSION + 1,
        ..hello(&token())
    };
    let newer = first(&codec::encode(&ToParent::Hello(newer)).unwrap());
    assert_matches!(
        newer,
        TransportError::Protocol(ProtocolError::WrongVersion { .. })
    );
    assert!(matches!(first(&[]), TransportError::Protocol(_)));
    assert_matches!(
        first(&[7; MAX_FRAME_BYTES + 1]),
        TransportError::PeerMisbehaved("a packet too large")
    );
}

#[test]
fn a_child_that_does_not_read_cannot_make_the_parent_wait() {
    let (mut accepted, theirs) = accepted();
    let error = (0..1_000_000)
        .find_map(|_| accepted.ends.sender.send(&stop()).err())
        .expect("a full socket");
    assert!(matches!(error, TransportError::Full), "{error}");
    let error = accepted.ends.receiver.recv().unwrap_err();
    assert!(matches!(error, TransportError::Full), "{error}");
    drop(theirs);
}

#[test]
fn a_child_cannot_shrink_the_parents_buffer() {
    let count = |options: fn(&File)| {
        let (mut accepted, theirs) = accepted();
        options(&theirs);
        (0..1_000_000)
            .take_while(|_| accepted.ends.sender.send(&stop()).is_ok())
            .count()
    };
    let room = count(|_| {});
    assert!(room >= 64, "{room} messages");
    let least = |end: &File| {
        sockopt::set_socket_send_buffer_size(end.as_fd(), 1).unwrap();
        sockopt::set_socket_recv_buffer_size(end.as_fd(), 1).unwrap();
    };
    assert_eq!(count(least), room);
}

#[test]
fn abandoning_ends_the_waiting_for_a_silent_child() {
    let (listener, _silent) = Listener::new().unwrap();
    let abandon = listener.cancel_handle();
    let waiting = on_thread(move || listener.accept(&token(), own()));
    abandon.abandon();
    assert_matches!(waiting.join().unwrap(), Err(TransportError::Abandoned));
}

#[test]
fn messages_of_a_child_that_died_after_hello_are_received() {
    let (listener, theirs) = Listener::new().unwrap();
    let abandon = listener.cancel_handle();
    let mut child = connect(theirs, hello(&token())).unwrap();
    let last = ToParent::ShutdownProfile { length: 5 };
    child.sender.send(&last).unwrap();
    drop(child);
    abandon.abandon();
    let mut accepted = listener.accept(&token(), own()).unwrap();
    assert_eq!(accepted.ends.receiver.recv().unwrap(), last);
    assert_matches!(
        accepted.ends.receiver.recv(),
        Err(TransportError::Disconnected)
    );
}

#[test]
fn hanging_up_ends_a_channel_that_another_process_holds_open() {
    let (listener, theirs) = Listener::new().unwrap();
    let _fork = theirs.try_clone().unwrap();
    let abandon = listener.cancel_handle();
    let mut child = connect(theirs, hello(&token())).unwrap();
    let mut accepted = listener.accept(&token(), own()).unwrap();
    abandon.abandon(); // has no effect now
    child
        .sender
        .send(&ToParent::ShutdownProfile { length: 1 })
        .unwrap();
    assert!(accepted.ends.receiver.recv().is_ok());
    let waiting = on_thread(move || accepted.ends.receiver.recv());
    abandon.hang_up();
    assert_matches!(waiting.join().unwrap(), Err(TransportError::Disconnected));
    assert!(
        child
            .sender
            .send(&ToParent::ShutdownProfile { length: 1 })
            .is_err()
    );
}

#[test]
fn a_handle_keeps_no_socket_open() {
    let (listener, theirs) = Listener::new().unwrap();
    let abandon = listener.cancel_handle();
    let mut child =
        PacketReceiver::new(Arc::new(PacketSocket::given(theirs.into()).unwrap()), None);
    drop(listener);
    assert!(matches!(child.recv(), Err(TransportError::Disconnected)));
    abandon.hang_up();
}

/// A TCP socket that `close` does not close within an hour: its peer does not read the sent data.
fn lingering() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    sockopt::set_socket_linger(&ours, Some(std::time::Duration::from_secs(3600))).unwrap();
    ours.set_nonblocking(true).unwrap();
    while std::io::Write::write(&mut ours, &[0; 65536]).is_ok() {}
    (ours, peer)
}

fn send_with(socket: &File, attached: impl AsFd) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [attached.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(
        socket,
        &[std::io::IoSlice::new(b"x")],
        &mut control,
        SendFlags::empty(),
    )
    .unwrap();
}

#[test]
fn an_attached_socket_that_takes_long_to_close_delays_neither_receiving_nor_closing() {
    for is_received in [true, false] {
        let (mut accepted, theirs) = accepted();
        let (slow, peer) = lingering();
        send_with(&theirs, &slow);
        drop((slow, theirs)); // the packet holds the last descriptor
        let (done, finished) = crossbeam_channel::bounded(1);
        let parent = on_thread(move || {
            if is_received {
                let error = accepted.ends.receiver.recv().unwrap_err();
                assert_matches!(error, TransportError::PeerMisbehaved(_));
            }
            drop(accepted);
            done.send(()).unwrap();
        });
        // Far less than the socket lingers, far more than any other step takes.
        let in_time = finished.recv_timeout(std::time::Duration::from_secs(60));
        drop(peer); // now the socket closes
        parent.join().unwrap();
        in_time.expect("the parent waits for the attached socket");
    }
}

#[test]
fn a_fork_may_not_use_the_channel_of_its_parent() {
    let (ours, _theirs) = PacketSocket::pair().unwrap();
    let mut receiver = PacketReceiver {
        owner: std::process::id() + 1,
        ..PacketReceiver::new(Arc::new(ours), None)
    };
    let mut sender = PacketSender::new(Arc::clone(&receiver.socket), true, Arc::default());
    sender.owner = receiver.owner;
    assert!(matches!(sender.send(&[1]), Err(TransportError::Forked)));
    assert!(matches!(receiver.recv(), Err(TransportError::Forked)));
}
