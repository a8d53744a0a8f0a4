//! Tests of processes that join a session by themselves, whichever process starts them.
//!
//! They are recorded like children of the session: all their entries are in the profile, their end
//! is noticed, the memory limit holds, and the session's commands reach them.

use std::collections::BTreeSet;

use integration_tests::assert_matches;
use integration_tests::helper_process::HelperProcess;
use integration_tests::joined::{self, JoinedHelper, has_marked, is_complete};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::profile::KILLED;
use integration_tests::session::{self, TestSession};
use integration_tests::watch::Seen;
use profiler_core::ids::ByteLimit;
use profiler_parent::ProcessState;

const CHILD: &str = env!("CARGO_BIN_EXE_child");

#[test]
fn a_process_that_others_start_is_recorded_like_a_child() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    assert_eq!(helper.status, "Recording");
    let reports = joined::reports_of(&session, helper.pid());
    assert_eq!(reports.len(), 1);
    assert!(reports[0].has_joined && reports[0].allowance.get() > 0);
    assert_eq!(reports[0].name, "child");
    assert_eq!(
        reports[0].parent.map(|parent| parent.get()),
        Some(std::process::id())
    );
    helper.ask("mark 100")?;
    for (_, profile) in session.capture_both()? {
        is_complete(&profile, &reports[0], 100)?;
    }
    assert!(session.all_pause());
    assert_eq!(helper.ask("paused")?, "ok true");
    assert!(session.all_resume());
    assert!(helper.end("exit 7")?.code() == Some(7));
    let ended = joined::wait_until_ended(&session, 1)?;
    if let ProcessState::Exited(Some(status)) = &ended[0].state {
        assert_eq!(status.code(), Some(7));
    }
    let (_, profile) = session.capture()?;
    is_complete(&profile, &reports[0], 100)
}

#[test]
fn a_killed_process_that_has_joined_keeps_its_data() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    helper.ask("hold 3 200")?;
    helper.ask("mark 100")?;
    assert!(!helper.end("kill")?.success());
    let reports = joined::wait_until_ended(&session, 1)?;
    let (_, profile) = session.capture()?;
    let pid = reports[0].pid.get();
    let verdicts = profile.verdicts_of(pid)?;
    // The system may not tell how a process ended that is not a child of the session.
    let known = [KILLED, "recovered: ended, with unknown status"];
    assert!(
        verdicts.len() == 1 && known.contains(&verdicts[0].as_str()),
        "{verdicts:?}"
    );
    let lives = profile.lives_of(pid);
    let numbers = lives[0].numbers()?;
    assert!((0..3).all(|thread| numbers[&thread].iter().copied().eq(0..200)));
    assert!(numbers[&1000].iter().copied().eq(0..100));
    Ok(())
}

#[test]
fn a_process_that_has_joined_stays_within_the_limit() -> anyhow::Result<()> {
    own_process!();
    const LIMIT: u64 = 4 << 20;
    let session = session::start(|builder| builder.memory_limit(ByteLimit::new(LIMIT)))?;
    let mut flooding = JoinedHelper::start(&session, CHILD, "join")?;
    let mut spawned = HelperProcess::spawn(&session, CHILD, "spawned", "init")?;
    flooding.ask("flood 2")?;
    spawned.ask("flood 1")?;
    let mut seen = Seen::default();
    let has_recorded_much = || {
        seen.look(&session, LIMIT);
        session.recorded() > 20 * LIMIT / 56
    };
    assert!(until(has_recorded_much));
    assert!(seen.peak <= LIMIT, "{seen:?}");
    flooding.ask("calm")?;
    spawned.ask("calm")?;
    let (_, profile) = session.capture()?;
    let lives = profile.lives_of(flooding.pid());
    assert!(lives[0].counts()?.evicted > 0);
    flooding.continues()
}

#[test]
fn a_program_that_executes_another_one_is_two_processes() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut joined = JoinedHelper::start(&session, CHILD, "join")?;
    joined.ask("mark 100")?;
    joined.tell("exec join")?;
    assert_eq!(joined.line()?, "Recording");
    let pid = joined.pid();
    joined::wait_until_connected(&session, pid)?;
    joined.ask("mark 50")?;
    two_lives(&session, pid, [100, 50])?;
    assert!(joined.end("exit 0")?.success());
    let have_ended = || {
        let mut lives = joined::reports_of(&session, pid).into_iter();
        lives.all(|life| matches!(life.state, ProcessState::Exited(_)))
    };
    assert!(until(have_ended));
    two_lives(&session, pid, [100, 50])
}

#[test]
fn a_child_of_the_session_may_execute_another_program_too() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn(&session, CHILD, "spawned", "init")?;
    helper.ask("mark 100")?;
    helper.tell("exec join")?;
    assert_eq!(helper.line()?, "Recording");
    joined::wait_until_connected(&session, helper.pid())?;
    helper.ask("mark 50")?;
    two_lives(&session, helper.pid(), [100, 50])?;
    assert_eq!(helper.end("exit 5")?.code(), Some(5));
    Ok(())
}

#[test]
fn a_child_that_executes_another_program_at_once_is_two_processes() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    // It may not be connected yet.
    let mut helper = HelperProcess::spawn_as(&session, CHILD, "spawned", "init")?;
    helper.tell("exec join")?;
    assert_eq!(helper.line()?, "Recording");
    joined::wait_until_connected(&session, helper.pid())?;
    let reports = joined::reports_of(&session, helper.pid());
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert_eq!(reports[0].state, ProcessState::Executed);
    helper.ask("mark 50")?;
    let (_, profile) = session.capture()?;
    let lives = profile.lives_of(helper.pid());
    let with_markers = lives.iter().filter(|life| !life.threads.is_empty());
    let mut found = with_markers.map(|life| has_marked(life, 50));
    assert!(found.any(|has_all| has_all.is_ok_and(|has_all| has_all)));
    Ok(())
}

#[test]
fn a_child_that_executes_a_program_without_a_profiler_has_ended() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    helper.ask("mark 100")?;
    helper.tell("exec no-init")?;
    assert_eq!(helper.line()?, "not asked");
    let pid = helper.pid();
    let has_executed = || {
        let lives = joined::reports_of(&session, pid);
        lives.len() == 1 && lives[0].state == ProcessState::Executed
    };
    assert!(
        until(has_executed),
        "{:?}",
        joined::reports_of(&session, pid)
    );
    let (_, profile) = session.capture()?;
    assert_eq!(profile.verdicts_of(pid)?, ["complete"]);
    assert!(has_marked(profile.lives_of(pid)[0], 100)?);
    Ok(())
}

/// Checks the two lives of a process, of which the first executed another program.
fn two_lives(session: &TestSession, pid: u32, marks: [u64; 2]) -> anyhow::Result<()> {
    let reports = joined::reports_of(session, pid);
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert_matches!(
        reports[0].state,
        ProcessState::Executed | ProcessState::Exited(_),
        "{reports:?}"
    );
    for (_, profile) in session.capture_both()? {
        let lives = profile.lives_of(pid);
        assert_eq!(lives.len(), 2);
        let mut found: Vec<u64> = Vec::new();
        for life in lives {
            life.counts()?;
            let numbers = life.numbers()?;
            found.push(numbers[&1000].len() as u64);
        }
        found.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        assert_eq!(found, marks);
        assert_eq!(profile.verdicts_of(pid)?, ["complete", "complete"]);
    }
    are_shown_as_two(session, pid)
}

/// Checks that the default output, whose viewer has one track for each number, shows two processes.
fn are_shown_as_two(session: &TestSession, pid: u32) -> anyhow::Result<()> {
    let report = session
        .session()?
        .capture()
        .save(session.path("shown.json"))?;
    let profile = integration_tests::tools::json(&report.path)?;
    let threads = profile["threads"].as_array().into_iter().flatten();
    let shown: BTreeSet<&str> = threads
        .filter_map(|thread| thread["pid"].as_str())
        .filter(|shown| shown.split('.').next() == Some(&*pid.to_string()))
        .collect();
    let expected = [pid.to_string(), format!("{pid}.1")];
    assert!(
        shown
            .iter()
            .copied()
            .eq(expected.iter().map(String::as_str)),
        "{shown:?}"
    );
    Ok(())
}

#[test]
fn processes_that_have_joined_outlive_the_session_and_nothing_of_it_is_left() -> anyhow::Result<()>
{
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "join")?;
    helper.ask("mark 100")?;
    let address = session.environment()?;
    let path = ipc_protocol::environment::SessionAddress::parse(&address[0].1)?;
    let directory = path.path().parent().expect("a directory").to_owned();
    assert!(directory.exists());
    session.end();
    assert!(!directory.exists(), "the address is left");
    assert!(until(|| helper
        .ask("active")
        .is_ok_and(|answer| answer == "ok false")));
    helper.continues()
}
