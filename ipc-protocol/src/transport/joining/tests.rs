//! Tests of the first exchange, with both sides in this process. Real processes are in
//! `integration-tests/tests/joining*.rs`.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, RawFd};

use profiler_core::ids::{ProcessId, ProcessStart};

use super::super::tests::{assert_matches, hello, on_thread};
use super::*;
use crate::limits::MAX_REFUSAL_BYTES;
use crate::message::{RequestId, ToChild};
use crate::transport::ParentEnds;
use crate::transport::inherited;
use crate::transport::listener::TryAccept;

/// Far more than any step takes.
const LONG: Duration = Duration::from_secs(60);

fn token() -> Token {
    Token::from_bytes([3; 16])
}

fn request() -> JoinRequest {
    JoinRequest {
        token: token(),
        name: "child".to_owned(),
        start: ProcessStart::new(0),
        parent: ProcessId::new(1),
        patience_ms: 20,
    }
}

fn address(listener: &SessionListener) -> SessionAddress {
    SessionAddress::new(listener.path().to_owned(), token())
}

/// Waits for the next process.
fn next(listener: &SessionListener) -> Joiner {
    loop {
        if let Some(joiner) = listener.try_accept().unwrap() {
            return joiner;
        }
        std::thread::yield_now();
    }
}

/// Waits for the first packet.
fn received(joiner: &Joiner) -> Result<Opening, TransportError> {
    loop {
        if let Some(request) = joiner.try_receive().transpose() {
            return request;
        }
        std::thread::yield_now();
    }
}

/// The session's side of a channel, and the child's side.
fn ends(joiner: &Joiner, joined: Joined) -> (ParentEnds, crate::transport::ChildEnds) {
    let child = inherited::connect(joined.channel, hello(&joined.token)).unwrap();
    let own = ProcessId::new(std::process::id());
    match joiner.channel().try_accept(&joined.token, own).unwrap() {
        TryAccept::Accepted(accepted) => (accepted.ends, child),
        TryAccept::Waiting(_) => panic!("the hello has been sent"),
    }
}

#[test]
fn a_process_gets_its_pool_and_its_channel() {
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let process = on_thread(move || join(&address, &request(), LONG));
    let joiner = next(&listener);
    assert_eq!(joiner.pid(), Some(ProcessId::new(std::process::id())));
    assert!(joiner.is_of_this_user());
    assert_eq!(received(&joiner).unwrap(), Opening::Join(request()));
    let mut pool = tempfile::tempfile().unwrap();
    pool.write_all(b"pool").unwrap();
    let hello_token = Token::from_bytes([4; 16]);
    joiner.welcome(&pool, &hello_token).unwrap();
    let joined = process.join().unwrap().unwrap();
    assert_eq!(joined.token, hello_token);
    assert_eq!(joined.pool.get().unwrap().metadata().unwrap().len(), 4);
    let (mut parent, mut child) = ends(&joiner, joined);
    let stop = ToChild::Stop {
        request: RequestId::new(1),
    };
    parent.sender.send(&stop).unwrap();
    assert_eq!(child.receiver.recv().unwrap(), stop);
}

#[test]
fn a_refused_process_learns_the_reason() {
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let process = on_thread(move || join(&address, &request(), LONG));
    let joiner = next(&listener);
    received(&joiner).unwrap();
    let long = "no room ".repeat(1000);
    joiner.refuse(JoinRefusal::NoMemory(long));
    let error = process.join().unwrap().unwrap_err();
    let JoinError::Refused(JoinRefusal::NoMemory(why)) = error else {
        panic!("{error}")
    };
    assert!(why.starts_with("no room") && why.len() <= MAX_REFUSAL_BYTES);
}

#[test]
fn an_answer_without_memory_is_no_welcome() {
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let process = on_thread(move || join(&address, &request(), LONG));
    let joiner = next(&listener);
    received(&joiner).unwrap();
    let answer = codec::encode(&JoinAnswer::Welcome { token: token() }).unwrap();
    joiner.socket.send(&answer, false).unwrap();
    let error = process.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::BadAnswer(_)), "{error}");
}

#[test]
fn a_process_does_not_wait_for_a_session_that_is_over_or_silent() {
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let silent = join(&address, &request(), Duration::from_millis(1)).unwrap_err();
    assert!(matches!(silent, JoinError::NoAnswer(_)), "{silent}");
    // It may have given up before it connected.
    drop(listener.try_accept().unwrap());
    drop(listener);
    assert!(!address.path().parent().unwrap().exists(), "files are left");
    let over = join(&address, &request(), LONG).unwrap_err();
    assert!(matches!(over, JoinError::NoSession(_)), "{over}");
}

#[test]
fn a_process_of_another_version_is_recognised() {
    let listener = SessionListener::new().unwrap();
    let theirs = PROTOCOL_VERSION + 1;
    let asker = Asker::connect(listener.path(), &Deadline::after(LONG)).unwrap();
    asker
        .send(&u16::try_from(theirs).unwrap().to_le_bytes())
        .unwrap();
    let error = received(&next(&listener)).unwrap_err();
    let ours = PROTOCOL_VERSION;
    assert_eq!(
        refusal_for(&error),
        JoinRefusal::WrongVersion { theirs, ours }
    );
    report_version(listener.path(), LONG).unwrap();
    let error = received(&next(&listener)).unwrap_err();
    assert!(matches!(error, TransportError::Protocol(_)), "{error}");
}

#[test]
fn a_report_arrives_although_its_sender_has_gone_on() {
    let listener = SessionListener::new().unwrap();
    let process = RecordedElsewhere {
        token: token(),
        name: "worker".to_owned(),
        pid: ProcessId::new(7),
        start: ProcessStart::new(8),
        parent: ProcessId::new(9),
        session: ProcessId::new(9),
    };
    report_recorded(&address(&listener), process.clone(), LONG).unwrap();
    let joiner = next(&listener);
    let expected = Opening::RecordedElsewhere(process);
    assert_eq!(received(&joiner).unwrap(), expected);
    let closed = received(&joiner).unwrap_err();
    assert!(matches!(closed, TransportError::Disconnected), "{closed}");
}

#[test]
fn nonsense_ends_only_its_own_connection() {
    let listener = SessionListener::new().unwrap();
    let cases: [&[u8]; 3] = [&[], &[7], &[7; MAX_JOIN_FRAME_BYTES + 1]];
    for packet in cases {
        let asker = Asker::connect(listener.path(), &Deadline::after(LONG)).unwrap();
        asker.send(packet).unwrap();
        assert!(received(&next(&listener)).is_err(), "{}", packet.len());
    }
    let silent = Asker::connect(listener.path(), &Deadline::after(LONG)).unwrap();
    let joiner = next(&listener);
    assert!(joiner.try_receive().unwrap().is_none(), "it is silent");
    drop(silent);
    let error = received(&joiner).unwrap_err();
    assert!(matches!(error, TransportError::Disconnected), "{error}");
}

#[test]
fn attached_descriptors_are_not_received() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let listener = SessionListener::new().unwrap();
    let asker = Asker::connect(listener.path(), &Deadline::after(LONG)).unwrap();
    let channel = asker.into_channel().unwrap();
    let file = tempfile::tempfile().unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let frame = codec::encode(&Opening::Join(request())).unwrap();
    sendmsg(
        channel.get().unwrap(),
        &[io::IoSlice::new(&frame)],
        &mut control,
        SendFlags::empty(),
    )
    .unwrap();
    let error = received(&next(&listener)).unwrap_err();
    assert_matches!(
        error,
        TransportError::PeerMisbehaved("a packet of another kind")
    );
}

#[test]
fn the_process_is_identified_with_and_without_a_descriptor_of_the_connection() {
    let listener = SessionListener::new().unwrap();
    let _asker = Asker::connect(listener.path(), &Deadline::after(LONG)).unwrap();
    let mut joiner = next(&listener);
    let own = profiler_core::internal::sys::own_process_start();
    let first = joiner.take_process(own);
    let second = joiner.take_process(own); // the kernel's own descriptor is taken
    assert!(first.is_ok() && second.is_ok());
    let missing = joiner.take_process(ProcessStart::new(1)).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
}

/// Puts another file under the number of a connection, as a program does that closes all
/// descriptors. Returns the owner of the number.
fn take_number(asked: &Joiner, number: RawFd, file: &File) -> File {
    received(asked).unwrap();
    // SAFETY: the number is open; its owner notices that it refers to another file.
    #[allow(unsafe_code)]
    let taken = unsafe { libc::dup2(file.as_raw_fd(), number) };
    assert_eq!(taken, number);
    // SAFETY: the connection gives the number up, so no other value owns it.
    #[allow(unsafe_code)]
    unsafe {
        File::from_raw_fd(number)
    }
}

#[test]
fn a_process_that_waits_for_an_answer_neither_uses_nor_closes_a_number_of_the_program() {
    let listener = SessionListener::new().unwrap();
    let deadline = Deadline::after(LONG);
    let asker = Asker::connect(listener.path(), &deadline).unwrap();
    let number = asker.socket().number().unwrap();
    let process = on_thread(move || {
        let wait = JoinWait {
            deadline,
            patience: LONG,
            goes_on: &|| true,
        };
        wait.exchange(&asker, &request())
            .inspect_err(|_| asker.hang_up())
    });
    let joiner = next(&listener);
    // The program has a file of its own there when the answer comes.
    let mut file = tempfile::tempfile().unwrap();
    let theirs = take_number(&joiner, number, &file);
    file.write_all(b"data").unwrap();
    drop(joiner);
    assert!(process.join().unwrap().is_err());
    assert_eq!(theirs.metadata().unwrap().len(), 4, "it is still open");
}
