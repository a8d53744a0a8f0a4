//! Tests of untrusted children, also in a sandbox that allows only what the recorder needs.
//!
//! Such a child records, obeys the limit and answers requests like any other child. It has no part
//! file: the parent reads its pool.

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::session;
use profiler_core::ids::ByteLimit;
use profiler_parent::ProcessState;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn an_untrusted_child_is_profiled_like_any_other() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn_untrusted(&session, CHILD, "child", "init")?;
    assert!(until(
        || session.processes()[1].state == ProcessState::Connected
    ));
    helper.ask("record 2 500")?;
    assert!(session.all_pause(), "it does not confirm the pause");
    assert_eq!(helper.ask("paused")?, "ok true");
    assert!(session.all_resume());
    let (_, profile) = session.capture()?;
    assert_eq!(profile.verdict("child")?, "complete");
    assert_eq!(profile.process("child")?.counts()?.delivered, 1000);
    let answer = helper.ask("grandchild")?;
    assert!(answer.starts_with("ok no-variable"), "{answer}");
    assert!(
        !answer.contains("socket:"),
        "a program that it starts inherits its channel: {answer}"
    );
    assert!(helper.end("exit 0")?.success());
    Ok(())
}

#[test]
fn a_child_in_a_sandbox_records_obeys_and_is_complete() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(8 << 20)))?;
    let mut helper = HelperProcess::spawn_untrusted(&session, CHILD, "child", "init")?;
    assert!(until(
        || session.processes()[1].state == ProcessState::Connected
    ));
    helper.ask("sandbox")?;
    helper.ask("record 2 500")?;
    let (_, profile) = session.capture()?;
    assert_eq!(profile.verdict("child")?, "complete");
    assert_eq!(profile.process("child")?.counts()?.delivered, 1000);
    helper.ask("burst 4 200000")?; // many times the limit
    assert!(session.all_pause());
    assert!(session.all_resume());
    let (report, profile) = session.capture()?;
    assert_eq!(profile.verdict("child")?, "complete");
    profile.process("child")?.counts()?;
    let counts = report.processes[1].counts; // includes threads that have ended
    assert!(counts.evicted > 0, "{counts:?}");
    assert_eq!(counts.recorded(), 801_000, "{counts:?}");
    assert!(helper.end("exit 0")?.success());
    Ok(())
}
