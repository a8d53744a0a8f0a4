//! Tests of processes that try to join a session and cannot: no address, one that leads nowhere, a
//! full session, a wrong version or token, another user's socket; and of connections that are not
//! from such processes.
//!
//! Each process runs on, unprofiled and unharmed, and says why. The session lists the processes
//! that it has refused, and lets others join meanwhile.

use std::os::unix::process::CommandExt;
use std::path::Path;

use integration_tests::helper_process::command;
use integration_tests::joined::{self, JoinedHelper};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session;
use ipc_protocol::environment::{SESSION_VARIABLE, SessionAddress, Token};
use ipc_protocol::message::PROTOCOL_VERSION;
use profiler_core::ids::ByteLimit;
use profiler_parent::Session;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Starts a helper whose address of a session has this value.
fn with_address(value: &str, beginning: &str) -> anyhow::Result<JoinedHelper> {
    let mut command = command(CHILD, beginning);
    command.env(SESSION_VARIABLE, value);
    JoinedHelper::start_by(command)
}

/// The value of the variable of a session.
fn value(session: &Session) -> anyhow::Result<String> {
    Ok(session.environment()?.swap_remove(0).1)
}

fn address(session: &Session) -> anyhow::Result<SessionAddress> {
    Ok(SessionAddress::parse(&value(session)?)?)
}

/// A connection to the session that is not one of the profiler's.
fn connect(path: &Path) -> anyhow::Result<std::os::fd::OwnedFd> {
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Waits until the session lists a process as not profiled, for a reason that contains `why`.
fn is_listed(session: &Session, pid: u32, why: &str) -> bool {
    let has_reason = || {
        let reports = joined::reports_of(session, pid);
        let mut reasons = reports
            .iter()
            .filter_map(|report| report.unprofiled.as_deref());
        reasons.any(|reason| reason.contains(why))
    };
    until(has_reason)
}

#[test]
fn without_an_address_a_process_runs_without_a_profiler() -> anyhow::Result<()> {
    own_process!();
    let mut helper = with_address("", "join")?;
    assert_eq!(helper.status, "NoParent");
    helper.continues()
}

#[test]
fn nonsense_in_the_variable_is_reported_and_harmless() -> anyhow::Result<()> {
    own_process!();
    let relative = format!("{PROTOCOL_VERSION};relative;00");
    for nonsense in ["nonsense", ";;;", "\u{fffd}", &relative] {
        let mut helper = with_address(nonsense, "join")?;
        let why = "off: MULTIPROCESS_PROFILER_SESSION is malformed";
        assert!(
            helper.status.starts_with(why),
            "{nonsense}: {}",
            helper.status
        );
        helper.continues()?;
    }
    Ok(())
}

#[test]
fn the_address_of_a_session_that_is_over_leads_nowhere() -> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let value = value(&session)?;
    session.end();
    let mut helper = with_address(&value, "join")?;
    assert_eq!(helper.status, "off: no session listens at this address");
    helper.continues()
}

#[test]
fn a_process_of_another_version_runs_unprofiled_and_the_session_says_so() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let value = value(&session)?;
    let (_, rest) = value.split_once(';').expect("a version");
    let mut helper = with_address(&format!("{};{rest}", PROTOCOL_VERSION + 1), "join")?;
    assert!(
        helper.status.starts_with("off: the session speaks version"),
        "{}",
        helper.status
    );
    // Its request has its own version, which is the session's here.
    assert!(is_listed(&session, helper.pid(), "the process sent"));
    helper.continues()?;
    let other = connect(address(&session)?.path())?;
    let version = u16::try_from(PROTOCOL_VERSION + 1)?.to_le_bytes();
    rustix::net::send(&other, &version, SendFlags::NOSIGNAL)?;
    let why = format!("speaks version {}", PROTOCOL_VERSION + 1);
    assert!(is_listed(&session, std::process::id(), &why));
    Ok(())
}

#[test]
fn a_process_with_a_wrong_token_is_refused() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let path = address(&session)?.path().to_owned();
    let wrong = SessionAddress::new(path, Token::generate()?);
    let mut helper = with_address(&wrong.to_value(), "join")?;
    let why = "the process does not know the session's token";
    assert_eq!(
        helper.status,
        format!("off: the session refuses this process: {why}")
    );
    assert!(is_listed(&session, helper.pid(), why));
    let (_, profile) = session.capture()?;
    assert_eq!(
        profile.verdicts_of(helper.pid())?,
        [format!("missing: not profiled: {why}")]
    );
    helper.continues()
}

#[test]
fn a_full_session_refuses_a_process_with_the_reason() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(64 << 10)))?;
    let mut helpers = Vec::new();
    for _ in 0..3 {
        helpers.push(JoinedHelper::start(&session, CHILD, "join")?);
    }
    let refused = "off: the session refuses this process: a limit of 65536 bytes";
    let count = helpers
        .iter()
        .filter(|helper| helper.status.starts_with(refused))
        .count();
    let status: Vec<&str> = helpers.iter().map(|helper| &*helper.status).collect();
    assert_eq!(count, 2, "{status:?}");
    for helper in &mut helpers {
        if helper.status != "Recording" {
            assert!(is_listed(&session, helper.pid(), "a limit of 65536 bytes"));
        }
        helper.continues()?;
    }
    Ok(())
}

#[test]
fn a_process_does_not_wait_long_for_a_session_that_does_not_answer() -> anyhow::Result<()> {
    own_process!();
    let place = tempfile::tempdir()?;
    let path = place.path().join("socket");
    let mut listening = command(CHILD, "listen");
    listening.arg(&path);
    let listening = JoinedHelper::start_by(listening)?;
    assert!(listening.status.starts_with("listening as"));
    let address = SessionAddress::new(path, Token::generate()?);
    let mut helper = with_address(&address.to_value(), "init-briefly")?;
    assert_eq!(helper.status, "Joining");
    helper.continues()
}

#[test]
fn a_socket_of_another_user_gets_nothing() -> anyhow::Result<()> {
    own_process!();
    const OTHER: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        eprintln!("not checked: only root can be another user");
        return Ok(());
    }
    let place = tempfile::tempdir()?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path(), mode)?;
    let path = place.path().join("socket");
    // A copy, because the other user may not be able to reach the original.
    let program = place.path().join("child");
    std::fs::copy(CHILD, &program)?;
    let mut listening = command(&program.to_string_lossy(), "listen");
    listening.arg(&path).uid(OTHER);
    let listening = JoinedHelper::start_by(listening)?;
    assert_eq!(listening.status, format!("listening as {OTHER}"));
    let address = SessionAddress::new(path, Token::generate()?);
    let mut helper = with_address(&address.to_value(), "join")?;
    assert_eq!(
        helper.status,
        format!("off: the process at the session's address belongs to user {OTHER}")
    );
    helper.continues()
}

#[test]
fn the_memory_of_a_process_that_leaves_is_taken_back() -> anyhow::Result<()> {
    own_process!();
    // Room for this process and one more.
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(64 << 10)))?;
    let mut left = JoinedHelper::start(&session, CHILD, "leave")?;
    assert_eq!(left.status, "left");
    let why = "it stopped waiting before the session answered";
    assert!(is_listed(&session, left.pid(), why));
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    assert_eq!(helper.status, "Recording");
    left.continues()?;
    helper.continues()
}

#[test]
fn a_packet_of_another_process_than_the_one_that_connected_is_refused() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let socket = connect(address(&session)?.path())?;
    let mut other = std::process::Command::new("echo");
    assert!(other.stdout(socket.try_clone()?).status()?.success());
    let why = "a packet of another process";
    assert!(is_listed(&session, std::process::id(), why));
    Ok(())
}

#[test]
fn connections_that_say_nothing_keep_no_process_out() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let address = address(&session)?;
    // More than the session keeps.
    let silent: Vec<_> = (0..200)
        .map(|_| connect(address.path()))
        .collect::<anyhow::Result<_>>()?;
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    assert_eq!(helper.status, "Recording");
    helper.ask("mark 100")?;
    drop(silent);
    helper.continues()
}

#[test]
fn connections_that_say_nonsense_keep_no_process_out() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let address = address(&session)?;
    let mut nonsense = Vec::new();
    for length in [0, 1, 2, 100, 1024, 1025, 60_000] {
        let socket = connect(address.path())?;
        rustix::net::send(&socket, &vec![7; length], SendFlags::NOSIGNAL)?;
        nonsense.push(socket);
    }
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    assert_eq!(helper.status, "Recording");
    helper.continues()
}

#[test]
fn a_hundred_processes_join_at_once() -> anyhow::Result<()> {
    own_process!();
    const COUNT: usize = 100;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(64 << 20)))?;
    let text = format!("for n in $(seq 1 {COUNT}); do \"$0\" mark-and-exit & done; wait");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &text, CHILD]);
    session.prepare(&mut shell)?;
    let said = joined::run(shell)?;
    let recording = said.lines().filter(|line| *line == "Recording").count();
    assert_eq!(recording, COUNT, "{said}");
    let reports = joined::wait_until_ended(&session, COUNT)?;
    let (_, profile) = session.capture()?;
    for report in reports {
        let lives = profile.lives_of(report.pid.get());
        assert_eq!(lives.len(), 1);
        assert_eq!(lives[0].counts()?.recorded, 100);
    }
    Ok(())
}
