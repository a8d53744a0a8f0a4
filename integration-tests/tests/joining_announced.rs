//! Tests of processes that announce themselves to a session and ask for memory later, as those do
//! into which the agent is loaded.
//!
//! Each is listed once: as a process that has joined, or with the time for which it ran.

use integration_tests::joined::{self, JoinedHelper, is_complete};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::profile::Profile;
use integration_tests::session::{self, TestSession};
use profiler_parent::{ProcessReport, ProcessState, UnprofiledProcess};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Waits until the only process of this number is known to have left before it asked.
fn wait_until_brief(session: &TestSession, pid: u32) -> ProcessReport {
    let reports = || joined::reports_of(session, pid);
    let has_left = || {
        let reports = reports();
        reports.len() == 1 && reports[0].unprofiled.is_some()
    };
    assert!(until(has_left), "{:?}", reports());
    reports().remove(0)
}

/// Checks a reason or a verdict. A machine that is so slow that the process cannot ask in time sees
/// the second one.
fn is_of_brief_program(text: &str) -> bool {
    text.contains("ran for ") && text.contains(" ms, too short to be recorded")
        || text.contains("left before it was recorded")
}

#[test]
fn a_process_that_ends_before_it_asks_is_listed_with_the_time_for_which_it_ran()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let helper = JoinedHelper::start(&session, CHILD, "announce-and-exit")?;
    assert_eq!(helper.status, "announced");
    let report = wait_until_brief(&session, helper.pid());
    assert_eq!(report.name, "child");
    assert!(report.has_joined);
    let why = report.unprofiled.unwrap_or_default();
    assert!(is_of_brief_program(&why), "{why}");
    let (_, profile) = session.capture()?;
    let verdicts = profile.verdicts_of(helper.pid())?;
    assert_eq!(verdicts, [format!("missing: {why}")]);
    Ok(())
}

#[test]
fn a_capture_lists_all_processes_that_have_announced_themselves_before() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let is_listed = |profile: &Profile, helper: &JoinedHelper| {
        let verdicts = profile.verdicts_of(helper.pid());
        verdicts.is_ok_and(|verdicts| verdicts.len() == 1)
    };
    // One capture is enough, unless the machine is so slow that it does not wait for them: then
    // another crowd, with one capture again.
    let are_listed_at_once = || {
        let helpers = (0..20).map(|_| JoinedHelper::start(&session, CHILD, "announce-and-exit"));
        let helpers: Vec<JoinedHelper> = helpers.collect::<anyhow::Result<_>>().ok()?;
        let (_, profile) = session.capture().ok()?;
        let all = helpers.iter().all(|helper| is_listed(&profile, helper));
        all.then_some(())
    };
    assert!(until(|| are_listed_at_once().is_some()));
    Ok(())
}

#[test]
fn a_process_that_asks_later_is_recorded_and_listed_once() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "announce")?;
    assert_eq!(helper.status, "announced");
    assert_eq!(helper.ask("ask")?, "Recording");
    joined::wait_until_connected(&session, helper.pid())?;
    helper.ask("mark 100")?;
    let reports = joined::reports_of(&session, helper.pid());
    assert_eq!(reports.len(), 1, "{reports:?}");
    for (_, profile) in session.capture_both()? {
        is_complete(&profile, &reports[0], 100)?;
    }
    assert!(helper.end("exit 0")?.success());
    Ok(())
}

/// Also where the profiler has no descriptor table of its own, and so loses its connection.
#[test]
fn a_process_whose_descriptors_are_closed_joins_nevertheless() -> anyhow::Result<()> {
    own_process!();
    closes_all_and_joins("announce", false)?;
    closes_all_and_joins("announce-in-one-table", true)
}

fn closes_all_and_joins(beginning: &str, loses_connection: bool) -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, beginning)?;
    let place = session.path("files");
    std::fs::create_dir(&place)?;
    helper.ask(&format!("close-all {}", place.display()))?;
    if loses_connection {
        wait_until_brief(&session, helper.pid());
    }
    assert_eq!(helper.ask("ask")?, "Recording");
    joined::wait_until_connected(&session, helper.pid())?;
    let reports = joined::reports_of(&session, helper.pid());
    assert_eq!(
        reports.len(),
        1,
        "its announcement is forgotten: {reports:?}"
    );
    helper.ask("check-files")?; // its files are its own
    helper.continues()
}

#[test]
fn a_process_that_closes_its_connection_and_runs_on_is_listed_once_with_the_reason()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "announce")?;
    let pid = helper.pid();
    // The session looks at the program when it receives the announcement.
    assert!(until(|| !joined::reports_of(&session, pid).is_empty()));
    helper.ask("leave-announced")?;
    let why = "it closed its connection before it asked for memory";
    let reports = || joined::reports_of(&session, pid);
    assert!(
        until(|| reports()[0].unprofiled.as_deref() == Some(&format!("not profiled: {why}"))),
        "{:?}",
        reports()
    );
    assert_eq!(reports()[0].state, ProcessState::Starting, "it runs");
    let is_listed = session.list_unprofiled(UnprofiledProcess {
        name: "child".to_owned(),
        pid: reports()[0].pid,
        parent: None,
        why: "it has not asked to join".to_owned(),
    });
    assert!(!is_listed);
    let (_, profile) = session.capture()?;
    let verdicts = profile.verdicts_of(pid)?;
    assert_eq!(verdicts, [format!("missing: not profiled: {why}")]);
    assert!(helper.end("exit 0")?.success());
    let has_ended = || matches!(reports()[0].state, ProcessState::Exited(_));
    assert!(until(has_ended), "{:?}", reports());
    assert_eq!(reports().len(), 1);
    Ok(())
}

#[test]
fn a_program_that_executes_another_one_at_once_is_two_processes() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "announce")?;
    let pid = helper.pid();
    helper.tell("exec announce")?;
    assert_eq!(helper.line()?, "announced");
    assert_eq!(helper.ask("ask")?, "Recording");
    joined::wait_until_connected(&session, pid)?;
    let lives = || joined::reports_of(&session, pid);
    let has_executed = || {
        lives()
            .iter()
            .any(|life| life.state == ProcessState::Executed)
    };
    assert!(until(has_executed), "{:?}", lives());
    let lives = lives();
    assert_eq!(lives.len(), 2, "{lives:?}");
    let why = lives[0].unprofiled.as_deref().unwrap_or_default();
    assert!(is_of_brief_program(why), "{why}");
    assert_eq!(lives[1].unprofiled, None);
    assert!(helper.end("exit 0")?.success());
    Ok(())
}

#[test]
fn a_forked_process_does_not_keep_its_parent_in_the_list_of_running_ones() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    // The forked process has the connection, and stays until the helper is dropped.
    let helper = JoinedHelper::start(&session, CHILD, "announce-and-fork")?;
    assert_eq!(helper.status, "announced");
    wait_until_brief(&session, helper.pid());
    Ok(())
}

#[test]
fn a_process_that_has_announced_itself_runs_on_without_its_session() -> anyhow::Result<()> {
    own_process!();
    let mut session = session::start(|builder| builder)?;
    let mut helper = JoinedHelper::start(&session, CHILD, "announce")?;
    session.end();
    let status = helper.ask("ask")?;
    assert!(status.starts_with("off: "), "{status}");
    helper.continues()
}
