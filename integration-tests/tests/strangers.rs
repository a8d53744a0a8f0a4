//! Tests of children that never connect correctly: without `init`, with a wrong token or version,
//! or with damaged memory.
//!
//! Each has a state and a verdict with the reason, continues its own work, and delays no capture.

use integration_tests::assert_matches;
use integration_tests::helper_process::HelperProcess;
use integration_tests::patience::{self, LONG, Stopwatch};
use integration_tests::reports::state_of;
use integration_tests::session::{self, TestSession};
use integration_tests::{own_process, own_process_tests};
use profiler_parent::ProcessState;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Captures in both formats, and returns the verdict on a child. The captures must not wait for the
/// child, as one in the Gecko format would for a frozen one.
fn verdict(session: &TestSession, name: &str) -> anyhow::Result<String> {
    let watch = Stopwatch::start();
    let [(_, profile), (_, gecko)] = session.capture_both()?;
    assert!(
        watch.elapsed() < LONG,
        "a capture waited for the progress timeout"
    );
    let verdict = profile.verdict(name)?;
    assert_eq!(verdict, gecko.verdict(name)?);
    Ok(verdict)
}

/// Waits until the session has closed the channel of a child. Returns the reason.
fn refused(session: &TestSession, name: &str) -> String {
    let mut why = None;
    let is_refused = || {
        why = match state_of(session, name) {
            ProcessState::Disconnected(why) => Some(why),
            _ => None,
        };
        why.is_some()
    };
    assert!(patience::until(is_refused), "{:?}", state_of(session, name));
    why.unwrap_or_default()
}

/// Checks that the child continues: it obeys, and exits with code 0.
fn continues(helper: &mut HelperProcess) -> anyhow::Result<()> {
    helper.ask("record 2 100")?;
    assert!(helper.end("exit 0")?.success());
    Ok(())
}

#[test]
fn a_child_that_never_calls_init() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "silent", "no-init")?;
    assert_eq!(state_of(&session, "silent"), ProcessState::Starting);
    assert_eq!(verdict(&session, "silent")?, "missing: never connected");
    continues(&mut helper)?;
    assert_matches!(state_of(&session, "silent"), ProcessState::Exited(Some(status)) if status.success());
    assert_eq!(verdict(&session, "silent")?, "missing: never connected");
    Ok(())
}

#[test]
fn a_child_that_dies_before_it_says_hello() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut command = std::process::Command::new(CHILD);
    command.arg("die-first");
    let mut child = session.spawn("early", command)?;
    assert!(!child.wait().expect("a status").success());
    assert_eq!(
        verdict(&session, "early")?,
        "missing: ended by signal 9 (SIGKILL)"
    );
    Ok(())
}

#[test]
fn a_child_with_a_wrong_token_is_refused_and_off() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn_as(&session, CHILD, "forger", "wrong-token")?;
    let why = refused(&session, "forger");
    assert_eq!(
        why,
        "the process that connected does not know this child's token"
    );
    assert!(helper.stops_recording());
    assert_eq!(
        verdict(&session, "forger")?,
        format!("recovered: refused: {why}")
    );
    continues(&mut helper)
}

/// A child that begins so has such a status, never connects, and continues.
fn stays_off(beginning: &str, is_right: fn(&str) -> bool) -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", beginning)?;
    assert!(is_right(&helper.status), "{}", helper.status);
    assert_eq!(verdict(&session, "child")?, "missing: never connected");
    continues(&mut helper)
}

own_process_tests! {
    a_child_of_another_version_stays_off:
        stays_off("wrong-version", |status| status.starts_with("off: the parent speaks version"));
    a_child_with_a_damaged_variable_stays_off:
        stays_off("malformed", |off| off.starts_with("off: ") && off.contains("malformed"));
    a_child_whose_environment_was_cleaned_runs_without_a_profiler:
        stays_off("variable-gone", |status| status == "NoParent");
}

#[test]
fn a_hello_of_another_version_is_refused() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "newer", "wrong-hello")?;
    assert!(helper.status.starts_with("refused: "), "{}", helper.status);
    let why = refused(&session, "newer");
    assert!(why.contains("version"), "{why}");
    assert_eq!(
        verdict(&session, "newer")?,
        format!("missing: refused: {why}")
    );
    continues(&mut helper)
}

#[test]
fn a_child_that_recorded_nothing_has_a_verdict_that_says_so() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "idle", "init")?;
    assert!(helper.end("exit 0")?.success());
    assert_eq!(verdict(&session, "idle")?, "missing: it recorded nothing");
    Ok(())
}

#[test]
fn a_child_that_destroyed_its_own_memory_is_unreadable() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "vandal", "init-and-scribble")?;
    let alive = verdict(&session, "vandal")?;
    assert!(!alive.starts_with("complete"), "{alive}");
    helper.end("kill")?;
    let dead = verdict(&session, "vandal")?;
    assert!(
        dead.starts_with("missing: memory unreadable: not a profiler pool"),
        "{dead}"
    );
    Ok(())
}

#[test]
fn a_grandchild_gets_neither_the_variable_nor_the_descriptors() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    let answer = helper.ask("grandchild")?;
    let words: Vec<&str> = answer.split(' ').collect();
    assert_eq!(words[..2], ["ok", "no-variable"], "{answer}");
    // It has its three standard streams, the directory that it lists, and nothing of the profiler.
    let is_inherited = |word: &&&str| {
        ["profiler-pool", "deleted", "socket:"]
            .iter()
            .any(|name| word.contains(name))
    };
    assert_eq!(words.iter().filter(is_inherited).count(), 0, "{answer}");
    Ok(())
}
