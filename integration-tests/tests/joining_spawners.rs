//! Tests of the spawners whose processes join a session: shells, job pools, fork servers, runners
//! of tests, and other libraries. None of them knows the session; the processes inherit its
//! address.

use std::io::Write;
use std::process::{Command, Stdio};

use integration_tests::joined::{self, JoinedHelper, has_marked, is_complete};
use integration_tests::marks::record_paced;
use integration_tests::own_process;
use integration_tests::patience::LONG;
use integration_tests::session::{self, TestSession};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
const PROCSPAWNED: &str = env!("CARGO_BIN_EXE_procspawned");

/// Set in the processes of [`the_processes_of_a_test_runner_join`].
const RUNNER: &str = "TEST_STARTED_BY_RUNNER";

/// Runs a command that starts `count` processes, each of which joins, records a hundred markers and
/// exits. Checks that the profile has all of them.
fn all_join(session: &TestSession, mut command: Command, count: usize) -> anyhow::Result<()> {
    session.prepare(&mut command)?;
    let said = joined::run(command)?;
    all_are_complete(session, &said, count)
}

/// Checks that `count` processes, whose output this is, have recorded a hundred markers each.
fn all_are_complete(session: &TestSession, said: &str, count: usize) -> anyhow::Result<()> {
    let recording = said.lines().filter(|line| *line == "Recording").count();
    assert_eq!(recording, count, "{said}");
    let reports = joined::wait_until_ended(session, count)?;
    let (_, profile) = session.capture()?;
    assert_eq!(profile.processes.len(), count + 1);
    reports
        .iter()
        .try_for_each(|report| is_complete(&profile, report, 100))
}

/// A shell script whose first argument is the helper.
fn script(text: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", text, CHILD]);
    command
}

#[test]
fn processes_that_a_shell_starts_join() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let text = "\"$0\" mark-and-exit & \"$0\" mark-and-exit & wait";
    all_join(&session, script(text), 2)
}

#[test]
fn processes_of_a_job_pool_join() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let text = "seq 1 16 | xargs -P 8 -n 1 \"$0\" mark-and-exit";
    all_join(&session, script(text), 16)
}

#[test]
fn the_workers_of_a_fork_server_join() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut command = Command::new(CHILD);
    command.args(["zygote", "6"]);
    all_join(&session, command, 6)
}

#[test]
fn processes_below_a_child_that_knows_nothing_join() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    // The first of the two takes the memory that was handed to the shell.
    let mut shell = session.spawn(
        "shell",
        script("\"$0\" mark-and-exit & \"$0\" mark-and-exit & wait"),
    )?;
    assert!(shell.wait()?.success());
    let reports = joined::wait_until_ended(&session, 1)?;
    let (_, profile) = session.capture()?;
    is_complete(&profile, &reports[0], 100)?;
    assert!(has_marked(profile.process("shell")?, 100)?);
    let parent = reports[0].parent.map(|parent| parent.get());
    assert_eq!(parent, Some(shell.id().get()));
    Ok(())
}

#[test]
fn the_environment_is_enough_for_any_spawner() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut command = integration_tests::helper_process::command(CHILD, "join");
    command.env_clear().envs(session.environment()?);
    let mut helper = JoinedHelper::start_by(command)?;
    assert_eq!(helper.status, "Recording");
    helper.continues()
}

#[test]
fn the_processes_of_procspawn_join() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut command = Command::new(PROCSPAWNED);
    command.arg("4");
    all_join(&session, command, 4)
}

#[test]
fn the_processes_of_tokio_join_and_tokio_gets_their_exit_status() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut command = tokio::process::Command::new(CHILD);
    command.arg("mark-and-exit").stdin(Stdio::null());
    session.prepare(command.as_std_mut())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (one, other) = runtime.block_on(async {
        let first = command.output(); // starts the process
        let second = command.output();
        (first.await, second.await)
    });
    let (one, other) = (one?, other?);
    assert!(one.status.success() && other.status.success());
    let said = [one.stdout, other.stdout].concat();
    all_are_complete(&session, &String::from_utf8(said)?, 2)
}

#[test]
fn the_processes_of_a_test_runner_join() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    // Like a runner, it starts executables of tests, several at once. The tests run on threads.
    let text = "seq 1 4 | xargs -P 4 -I @ \"$0\" --exact \"$1\" --nocapture";
    let mut runner = Command::new("sh");
    runner
        .args(["-c", text])
        .arg(std::env::current_exe()?)
        .arg("joining_spawners::is_started_by_the_runner")
        .env(RUNNER, "1");
    all_join(&session, runner, 4)
}

/// Joins and records on a thread of the test harness if a runner has started it; otherwise does
/// nothing.
#[test]
fn is_started_by_the_runner() {
    if std::env::var_os(RUNNER).is_some() {
        let status = profiler_child::init_within(LONG);
        record_paced(1000, 0..100);
        // In one piece, because the processes share the output, and after a line break, because the
        // harness may have begun a line.
        let line = format!("\n{status:?}\n");
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}
