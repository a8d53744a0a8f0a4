//! Tests of untrusted children, also in a sandbox that allows only what the recorder needs.
//!
//! One of the sandboxes also allows what samples need, but no call for a timer.
//!
//! Such a child records, obeys the limit and answers requests like any other child. It has no part
//! file: the parent reads its pool.

use integration_tests::helper_process::HelperProcess;
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::profile::Profile;
use integration_tests::session::{self, TestSession};
use profiler_core::ids::ByteLimit;
use profiler_core::session::Features;
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
    for (_, profile) in session.capture_both()? {
        profile.holds("child", "complete", 1000)?;
    }
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
    for (_, profile) in session.capture_both()? {
        profile.holds("child", "complete", 1000)?;
    }
    helper.tell("burst 4 200000")?; // many times the limit
    // A thread that waits with a time-out makes another call when it goes on.
    for _ in 0..20 {
        anyhow::ensure!(helper.freeze());
        helper.signal(libc::SIGCONT);
    }
    assert_eq!(helper.line()?, "ok");
    assert!(session.all_pause());
    assert!(session.all_resume());
    for (report, profile) in session.capture_both()? {
        assert_eq!(profile.verdict("child")?, "complete");
        profile.process("child")?.counts()?;
        let counts = report.processes[1].counts; // includes threads that have ended
        assert!(counts.evicted > 0, "{counts:?}");
        assert_eq!(counts.recorded(), 801_000, "{counts:?}");
    }
    assert!(helper.end("exit 0")?.success());
    Ok(())
}

/// The numbers of samples of a thread of the child while it ran, with and without a stack; 0 if the
/// thread has none.
fn samples(profile: &Profile, thread: &str) -> (usize, usize) {
    let Ok(thread) = profile
        .process("child")
        .and_then(|child| child.thread(thread))
    else {
        return (0, 0);
    };
    let samples = &thread.samples;
    let mut with_stack = 0;
    let mut without = 0;
    for sample in samples.all.iter().filter(|one| one.cpu_ns > Some(0)) {
        let has_stack = samples.stack(sample).len() > 1;
        with_stack += usize::from(has_stack);
        without += usize::from(!has_stack);
    }
    (with_stack, without)
}

/// Captures until the samples are as they must become.
fn until_samples(session: &TestSession, are_right: impl Fn(&Profile) -> bool) -> bool {
    until(|| {
        let captured = session.capture();
        captured.is_ok_and(|(_, profile)| are_right(&profile))
    })
}

/// A filter that is installed later may kill for any call for a timer, so there is none: not for
/// new threads, not in a pause, and not at the end of the session.
#[test]
fn a_sampled_child_in_a_sandbox_keeps_its_timers_and_makes_no_others() -> anyhow::Result<()> {
    own_process!();
    let features = Features::STACK_WALK.with(Features::CPU);
    let mut session = session::start(|builder| builder.features(features))?;
    let mut helper = HelperProcess::spawn_untrusted(&session, CHILD, "child", "init")?;
    assert!(until(
        || session.processes()[1].state == ProcessState::Connected
    ));
    helper.ask("compute early")?;
    let has_stacks = |least: usize| move |profile: &Profile| samples(profile, "early").0 >= least;
    assert!(until_samples(&session, has_stacks(10)));
    helper.ask("sandbox sampled")?;
    let (_, profile) = session.capture()?;
    assert!(until_samples(
        &session,
        has_stacks(samples(&profile, "early").0 + 10)
    ));
    helper.ask("compute late")?;
    assert!(until_samples(&session, |profile| {
        let (with_stack, without) = samples(profile, "late");
        assert_eq!(with_stack, 0, "it has no timer");
        without >= 10
    }));
    helper.ask("record 2 500")?; // on threads that join under the filter
    assert!(session.all_pause() && session.all_resume());
    for (_, profile) in session.capture_both()? {
        assert_eq!(profile.verdict("child")?, "complete");
    }
    session.end();
    assert!(helper.stops_recording());
    assert!(helper.end("exit 0")?.success());
    Ok(())
}
