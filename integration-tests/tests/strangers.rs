//! Tests of children that never connect correctly: without `init`, with a wrong token or version,
//! or with damaged memory.
//!
//! Each has a state and a verdict with the reason, continues its own work, and delays no capture.

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::{self, LONG, Stopwatch};
use integration_tests::session::{self, TestSession};
use profiler_parent::ProcessState;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

fn state_of(session: &TestSession, name: &str) -> ProcessState {
    let found = session
        .processes()
        .into_iter()
        .find(|process| process.name == name);
    found.expect("a process of that name").state
}

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
    assert!(
        matches!(state_of(&session, "silent"), ProcessState::Exited(Some(status)) if status.success())
    );
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
        "missing: crashed with signal 9 (SIGKILL)"
    );
    Ok(())
}

#[test]
fn a_child_with_a_wrong_token_is_refused_and_off() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn_as(&session, CHILD, "forger", "wrong-token")?;
    let refused = || matches!(state_of(&session, "forger"), ProcessState::Disconnected(_));
    assert!(patience::until(refused));
    let ProcessState::Disconnected(why) = state_of(&session, "forger") else {
        unreachable!()
    };
    assert_eq!(
        why,
        "the process that connected does not know this child's token"
    );
    assert!(patience::until(|| helper
        .ask("active")
        .is_ok_and(|answer| answer == "ok false")));
    assert_eq!(
        verdict(&session, "forger")?,
        format!("recovered: refused: {why}")
    );
    continues(&mut helper)
}

#[test]
fn a_child_of_another_version_stays_off() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "newer", "wrong-version")?;
    assert!(
        helper.status.starts_with("off: the parent speaks version"),
        "{}",
        helper.status
    );
    assert_eq!(verdict(&session, "newer")?, "missing: never connected");
    continues(&mut helper)
}

#[test]
fn a_child_with_a_damaged_variable_stays_off() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "damaged", "malformed")?;
    assert!(
        helper.status.starts_with("off: ") && helper.status.contains("malformed"),
        "{}",
        helper.status
    );
    assert_eq!(verdict(&session, "damaged")?, "missing: never connected");
    continues(&mut helper)
}

#[test]
fn a_hello_of_another_version_is_refused() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "newer", "wrong-hello")?;
    assert!(helper.status.starts_with("refused: "), "{}", helper.status);
    let refused = || matches!(state_of(&session, "newer"), ProcessState::Disconnected(_));
    assert!(patience::until(refused));
    let ProcessState::Disconnected(why) = state_of(&session, "newer") else {
        unreachable!()
    };
    assert!(why.contains("version"), "{why}");
    assert_eq!(
        verdict(&session, "newer")?,
        format!("missing: refused: {why}")
    );
    continues(&mut helper)
}

#[test]
fn a_child_whose_environment_was_cleaned_runs_without_a_profiler() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "clean", "variable-gone")?;
    assert_eq!(helper.status, "NoParent");
    assert_eq!(verdict(&session, "clean")?, "missing: never connected");
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
