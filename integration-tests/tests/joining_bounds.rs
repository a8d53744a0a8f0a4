//! Tests of what a process can cost the session that it joins: descriptors, entries and threads, if
//! it joins and leaves, executes itself, or attaches slow sockets, again and again.

use std::io::{IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use integration_tests::helper_process::command;
use integration_tests::joined::{self, JoinedHelper};
use integration_tests::own::thread_names;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session::{self, TestSession};
use ipc_protocol::environment::SessionAddress;
use profiler_parent::ProcessState;
use profiler_sys::spawn_quiet;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// The descriptors of processes that this process has.
fn process_descriptors() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let links = all.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter(|link| link.to_string_lossy().contains("pidfd"))
        .count()
}

#[test]
fn a_process_that_joins_and_leaves_often_costs_one_entry_and_one_descriptor() -> anyhow::Result<()>
{
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut leaving = command(CHILD, "leave");
    leaving.arg("300");
    session.prepare(&mut leaving)?;
    let mut helper = JoinedHelper::start_by(leaving)?;
    assert_eq!(helper.status, "left");
    let pid = helper.pid();
    let costs = || {
        (
            joined::reports_of(&session, pid).len(),
            process_descriptors(),
        )
    };
    assert!(until(|| costs() == (1, 1)), "{:?}", costs());
    let mut other = JoinedHelper::start(&session, CHILD, "join")?;
    assert_eq!(other.status, "Recording");
    other.continues()?;
    helper.continues()
}

#[test]
fn a_process_that_executes_itself_often_costs_one_descriptor() -> anyhow::Result<()> {
    own_process!();
    const TIMES: usize = 10;
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    let pid = helper.pid();
    let lives = || joined::reports_of(&session, pid);
    for count in 1..=TIMES {
        helper.tell("exec join")?;
        assert_eq!(helper.line()?, "Recording");
        let is_connected = || {
            let lives = lives();
            lives.len() == count + 1 && lives[count].state == ProcessState::Connected
        };
        assert!(until(is_connected), "{:?}", lives());
    }
    assert!(
        until(|| process_descriptors() == 1),
        "{}",
        process_descriptors()
    );
    assert!(helper.end("exit 0")?.success());
    let have_ended = || {
        let mut lives = lives().into_iter();
        lives.all(|life| matches!(life.state, ProcessState::Exited(_)))
    };
    assert!(until(have_ended), "{:?}", lives());
    assert_eq!(process_descriptors(), 0);
    Ok(())
}

/// A connection over which the kernel would go on sending for ten minutes after it is closed, and
/// the end that would receive.
fn slow_connection(listener: &TcpListener) -> anyhow::Result<(TcpStream, TcpStream)> {
    let mut slow = TcpStream::connect(listener.local_addr()?)?;
    rustix::net::sockopt::set_socket_send_buffer_size(&slow, 4096)?;
    let (receiver, _) = listener.accept()?;
    slow.set_nonblocking(true)?;
    while slow.write(&[0; 1 << 16]).is_ok() {}
    slow.set_nonblocking(false)?;
    rustix::net::sockopt::set_socket_linger(&slow, Some(Duration::from_secs(600)))?;
    Ok((slow, receiver))
}

/// Sends a packet with a file to the session, and closes the connection.
fn attach(session: &TestSession, file: &OwnedFd) -> anyhow::Result<()> {
    let value = session.environment()?.swap_remove(0).1;
    let address = SocketAddrUnix::new(SessionAddress::parse(&value)?.path())?;
    let flags = SocketFlags::CLOEXEC;
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    rustix::net::connect(&socket, &address)?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    rustix::net::sendmsg(
        &socket,
        &[IoSlice::new(b"x")],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

#[test]
fn one_thread_closes_all_sockets_that_are_slow_to_close() -> anyhow::Result<()> {
    own_process!();
    // More than the session keeps open.
    const COUNT: usize = 150;
    let session = session::start(|builder| builder)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096)?;
    let closing = || {
        let names = thread_names();
        names
            .iter()
            .filter(|name| *name == "profiler-close")
            .count()
    };
    let (mut receivers, mut closed) = (Vec::new(), Vec::new());
    // The last one that closes the connection is slow. It is the session if the thread here ends.
    let mut attach_one = || -> anyhow::Result<bool> {
        let (slow, receiver) = slow_connection(&listener)?;
        let slow = OwnedFd::from(slow);
        attach(&session, &slow)?;
        receivers.push(receiver);
        closed.push(spawn_quiet("closes", move || drop(slow))?);
        Ok(closed.iter().any(|thread| thread.is_finished()))
    };
    assert!(until(
        || attach_one().is_ok_and(|is_left_to_session| is_left_to_session)
    ));
    for _ in 0..COUNT {
        attach_one()?;
        assert!(until(|| closing() == 1), "{}", closing());
    }
    drop(receivers); // the kernel has nothing more to send
    assert!(until(|| closing() == 0));
    for thread in closed {
        thread.join().map_err(|_| anyhow::anyhow!("a panic"))?;
    }
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    assert_eq!(helper.status, "Recording");
    helper.continues()
}
