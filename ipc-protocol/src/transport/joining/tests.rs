//! Tests of the first exchange, with both sides in this process. Real processes are in
//! `integration-tests/tests/joining*.rs`.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::AtomicBool;

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
        began_ns: 7,
        patience_ms: 20,
    }
}

fn announcement() -> JoinRequest {
    JoinRequest {
        patience_ms: 0,
        ..request()
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

/// Gives a process memory.
fn welcome(joiner: &Joiner) {
    let pool = tempfile::tempfile().unwrap();
    joiner.welcome(&pool, &token()).unwrap();
}

/// Never set.
static GOES_ON: AtomicBool = AtomicBool::new(false);

/// Waits for a request, and returns whether it is an announcement.
fn is_announcement(joiner: &Joiner) -> bool {
    match received(joiner).unwrap() {
        Opening::Join(request) => request.is_announcement(),
        other => panic!("{other:?}"),
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
fn a_process_that_has_announced_itself_asks_on_the_same_connection() {
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let announced = announce(&address, &announcement(), LONG).unwrap();
    let joiner = next(&listener);
    assert!(is_announcement(&joiner));
    let process = on_thread(move || announced.join(&address, &request(), LONG, &GOES_ON));
    assert!(!is_announcement(&joiner));
    welcome(&joiner);
    process.join().unwrap().unwrap();
}

#[test]
fn a_process_whose_announcement_was_closed_connects_again() {
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let announced = announce(&address, &announcement(), LONG).unwrap();
    drop(next(&listener));
    let process = on_thread(move || announced.join(&address, &request(), LONG, &GOES_ON));
    let joiner = next(&listener);
    assert!(!is_announcement(&joiner));
    welcome(&joiner);
    process.join().unwrap().unwrap();
}

#[test]
fn an_announcement_is_received_after_its_process_has_left() {
    let listener = SessionListener::new().unwrap();
    drop(announce(&address(&listener), &announcement(), LONG).unwrap());
    let joiner = next(&listener);
    assert!(is_announcement(&joiner));
    let error = received(&joiner).unwrap_err();
    assert!(matches!(error, TransportError::Disconnected), "{error}");
    assert!(!joiner.has_ended(), "this process runs");
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

#[test]
fn a_wait_for_an_answer_ends_when_another_thread_gives_up() {
    static GIVES_UP: AtomicBool = AtomicBool::new(false);
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let announced = announce(&address, &request(), LONG).unwrap();
    let process = on_thread(move || announced.join(&address, &request(), Duration::MAX, &GIVES_UP));
    let joiner = next(&listener);
    received(&joiner).unwrap();
    GIVES_UP.store(true, std::sync::atomic::Ordering::Release);
    let error = process.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::NoAnswer(_)), "{error}");
}

/// Finds out whether the other end of a connection has been closed.
fn is_closed(joiner: &Joiner) -> bool {
    loop {
        match joiner.try_receive() {
            Ok(_) => std::thread::yield_now(),
            Err(TransportError::Disconnected) => return true,
            Err(_) => return false,
        }
    }
}

#[test]
fn a_process_that_gives_up_ends_the_connection_that_a_fork_holds_open() {
    let listener = SessionListener::new().unwrap();
    let address = address(&listener);
    let announced = announce(&address, &request(), LONG).unwrap();
    let socket = announced.0.as_ref().unwrap().socket().get().unwrap();
    let _held = socket.try_clone().unwrap(); // as a forked child has it
    let joiner = next(&listener);
    drop(announced);
    assert!(is_closed(&joiner));
}

/// Puts another file under the number of a connection, as a program does that closes all
/// descriptors. Returns the owner of the number.
fn take_number(asked: &Joiner, number: RawFd, file: &File) -> File {
    while !matches!(received(asked), Ok(Opening::Join(request)) if !request.is_announcement()) {}
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
    let address = address(&listener);
    let announced = announce(&address, &announcement(), LONG).unwrap();
    let socket = announced.0.as_ref().unwrap().socket();
    let number = socket.number().unwrap();
    let process = on_thread(move || announced.join(&address, &request(), LONG, &GOES_ON));
    let first = next(&listener);
    assert!(is_announcement(&first));
    // The program has a file of its own there when the answer comes.
    let mut file = tempfile::tempfile().unwrap();
    let theirs = take_number(&first, number, &file);
    file.write_all(b"data").unwrap();
    drop(first);
    let second = next(&listener);
    assert_eq!(received(&second).unwrap(), Opening::Join(request()));
    let pool = tempfile::tempfile().unwrap();
    second.welcome(&pool, &Token::from_bytes([4; 16])).unwrap();
    let joined = process.join().unwrap().unwrap();
    assert_ne!(joined.channel.number(), Some(number));
    assert_eq!(theirs.metadata().unwrap().len(), 4, "it is still open");
}

#[test]
fn a_connection_is_silent_while_it_is_open_and_nothing_is_queued() {
    let listener = SessionListener::new().unwrap();
    let announced = announce(&address(&listener), &announcement(), LONG).unwrap();
    let joiner = next(&listener);
    assert!(!joiner.is_silent(), "the announcement is queued");
    received(&joiner).unwrap();
    assert!(joiner.is_silent());
    drop(announced);
    assert!(!joiner.is_silent());
}
