//! Tests of servers that fork their workers: each worker calls `profiler_child::after_fork`, and is
//! then a process of the session of its own. Without the call, or if it cannot join, it is
//! unharmed.

#![allow(unsafe_code)]

use std::panic::AssertUnwindSafe;

use integration_tests::forks::in_forked_child;
use integration_tests::helper_process::{HelperProcess, command};
use integration_tests::joined::{self, JoinedHelper, has_marked, is_complete};
use integration_tests::marks::record_paced;
use integration_tests::own_process;
use integration_tests::patience::LONG;
use integration_tests::profile::Process;
use integration_tests::reports::captured;
use integration_tests::session::{self, TestSession};
use ipc_protocol::environment::SESSION_VARIABLE;
use profiler_child::Status;
use profiler_core::ids::ByteLimit;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Starts a session and a server that records.
fn served() -> anyhow::Result<(TestSession, HelperProcess)> {
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(64 << 20)))?;
    let server = HelperProcess::spawn(&session, CHILD, "server", "init")?;
    assert_eq!(server.status, "Recording");
    Ok((session, server))
}

/// Checks that the profile has `count` workers of this process, which have ended, with `marks`
/// markers each.
fn has_workers(session: &TestSession, of: u32, count: usize, marks: u64) -> anyhow::Result<()> {
    let reports = joined::wait_until_ended(session, count)?;
    let (_, profile) = session.capture()?;
    for report in &reports {
        assert_eq!(report.parent.map(|parent| parent.get()), Some(of));
        is_complete(&profile, report, marks)?;
    }
    Ok(())
}

/// Checks that the server is unharmed, and that the profile has `marks` markers of its main thread.
fn goes_on(session: &TestSession, server: &mut HelperProcess, marks: u64) -> anyhow::Result<()> {
    server.ask("mark 10")?;
    for (_, profile) in session.capture_both()? {
        let numbers = profile.process("server")?.numbers()?;
        assert!(numbers[&1000].iter().copied().eq(0..marks + 10));
        assert_eq!(profile.verdict("server")?, "complete");
    }
    assert!(server.end("exit 0")?.success());
    Ok(())
}

fn times(process: &Process) -> Vec<f64> {
    process.named("numbered").map(|mark| mark.time).collect()
}

#[test]
fn a_server_and_its_workers_are_on_one_timeline() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    server.ask("mark 50")?;
    assert_eq!(server.ask("workers 4 100")?, "ok 4");
    server.ask("mark 50")?;
    has_workers(&session, server.child.id().get(), 4, 100)?;
    let (_, profile) = session.capture()?;
    assert_eq!(profile.processes.len(), 6);
    assert!(has_marked(profile.process("server")?, 100)?);
    let of_server = times(profile.process("server")?);
    let workers = profile
        .processes
        .iter()
        .filter(|process| process.name == "child");
    let of_workers: Vec<f64> = workers.flat_map(times).collect();
    assert_eq!(of_workers.len(), 400);
    // The server forked the workers between its two halves, and waited for them.
    let (first, last) = (of_server[49], of_server[50]);
    assert!(
        of_workers.iter().all(|time| (first..=last).contains(time)),
        "{first} to {last}: {of_workers:?}"
    );
    goes_on(&session, &mut server, 100)
}

#[test]
fn workers_join_while_other_threads_of_the_server_record() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    server.ask("flood 2 500")?;
    for _ in 0..4 {
        assert_eq!(server.ask("workers 6 20")?, "ok 6");
    }
    server.ask("calm")?;
    let all = server.ask("flooded")?;
    has_workers(&session, server.child.id().get(), 24, 20)?;
    let (report, _) = session.capture()?;
    let counts = captured(&report, "server").counts;
    assert_eq!(format!("ok {}", counts.recorded()), all, "{counts:?}");
    goes_on(&session, &mut server, 0)
}

#[test]
fn a_fork_of_a_program_with_threads_records_nothing_without_the_call() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    server.ask("hold 2 10")?;
    assert_eq!(server.ask("in-fork silent")?, "ok true false");
    let refused = "ok off: a forked child cannot record before it calls after_fork";
    let said = server.ask("in-fork init")?;
    assert!(said.starts_with(refused), "{said}");
    assert_eq!(joined::joined(&session).len(), 0);
    goes_on(&session, &mut server, 0)
}

#[test]
fn a_second_call_in_a_worker_changes_nothing() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    assert_eq!(server.ask("in-fork twice")?, "ok Recording, AlreadyDone");
    has_workers(&session, server.child.id().get(), 1, 100)?;
    goes_on(&session, &mut server, 0)
}

#[test]
fn a_call_in_the_server_itself_is_an_error_and_changes_nothing() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    server.ask("mark 10")?;
    let why =
        "ok off: this process was not forked from a process in which the profiler was started";
    assert_eq!(server.ask("after-fork")?, why);
    assert_eq!(server.ask("active")?, "ok true");
    assert_eq!(joined::joined(&session).len(), 0);
    goes_on(&session, &mut server, 10)
}

#[test]
fn a_worker_that_has_threads_is_told_so_and_may_call_again() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    assert_eq!(
        server.ask("in-fork with-thread")?,
        "ok off: this process has started threads since it was forked, Recording"
    );
    has_workers(&session, server.child.id().get(), 1, 100)?;
    goes_on(&session, &mut server, 0)
}

#[test]
fn a_worker_of_a_worker_joins_too() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    assert_eq!(server.ask("in-fork worker")?, "ok Recording, Recording");
    let reports = joined::wait_until_ended(&session, 2)?;
    let (_, profile) = session.capture()?;
    reports
        .iter()
        .try_for_each(|report| is_complete(&profile, report, 100))?;
    let parents: Vec<u32> = reports
        .iter()
        .filter_map(|report| Some(report.parent?.get()))
        .collect();
    assert_eq!(parents, [server.child.id().get(), reports[0].pid.get()]);
    goes_on(&session, &mut server, 0)
}

#[test]
fn a_worker_can_end_its_profiler_and_its_server_records_on() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    assert_eq!(server.ask("in-fork shutdown")?, "ok Recording, false");
    has_workers(&session, server.child.id().get(), 1, 100)?;
    assert_eq!(server.ask("active")?, "ok true");
    goes_on(&session, &mut server, 0)
}

#[test]
fn a_process_that_was_forked_within_an_entry_does_not_begin_anew() -> anyhow::Result<()> {
    own_process!();
    let (session, mut server) = served()?;
    server.ask("mark 10")?;
    assert_eq!(
        server.ask("fork-within-entry")?,
        "ok off: this process was forked within the serialisation of an entry"
    );
    assert_eq!(joined::joined(&session).len(), 0);
    goes_on(&session, &mut server, 10)
}

#[test]
fn without_a_session_a_worker_runs_unprofiled() -> anyhow::Result<()> {
    own_process!();
    let mut alone = command(CHILD, "init");
    alone.env(SESSION_VARIABLE, "");
    let mut alone = JoinedHelper::start_by(alone)?;
    assert_eq!(alone.status, "NoParent");
    assert_eq!(alone.ask("in-fork after-fork")?, "ok NoParent");
    assert_eq!(alone.ask("in-fork init")?, "ok NoParent");
    alone.continues()
}

#[test]
fn a_worker_of_an_untrusted_child_does_not_join() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut server = HelperProcess::spawn_untrusted(&session, CHILD, "server", "init")?;
    assert_eq!(server.status, "Recording");
    joined::wait_until_connected(&session, server.child.id().get())?;
    assert_eq!(server.ask("in-fork after-fork")?, "ok NoParent");
    assert_eq!(joined::joined(&session).len(), 0);
    goes_on(&session, &mut server, 0)
}

#[test]
fn a_worker_that_is_forked_after_the_session_runs_unprofiled() -> anyhow::Result<()> {
    own_process!();
    let (mut session, mut server) = served()?;
    session.end();
    assert_eq!(
        server.ask("in-fork after-fork")?,
        "ok off: no session listens at this address"
    );
    assert!(server.end("exit 0")?.success());
    Ok(())
}

/// Acts as a worker. Returns whether it has joined.
fn work(environment: &[(&'static str, String)]) -> bool {
    for (name, value) in environment {
        // SAFETY: the process has one thread.
        #[allow(clippy::disallowed_methods)]
        unsafe {
            std::env::set_var(name, value);
        }
    }
    // SAFETY: the C library's allocator works in a forked process. No thread of the test changes
    // the environment, loads a library or starts the profiler during the fork.
    let status = unsafe { profiler_child::after_fork_within(LONG) };
    record_paced(1000, 0..100);
    profiler_child::shutdown();
    matches!(status, Status::Recording)
}

#[test]
fn a_worker_of_the_sessions_own_process_joins() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let environment = session.environment()?;
    let in_child = || {
        let has_joined = std::panic::catch_unwind(AssertUnwindSafe(|| work(&environment)));
        i32::from(!has_joined.unwrap_or(false))
    };
    // SAFETY: the forked process does what `work` does.
    assert_eq!(unsafe { in_forked_child(in_child) }, 0);
    record_paced(1000, 0..10);
    has_workers(&session, std::process::id(), 1, 100)?;
    let (_, profile) = session.capture()?;
    assert!(has_marked(profile.parent(), 10)?);
    Ok(())
}
