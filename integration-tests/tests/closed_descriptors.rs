//! Tests of a child whose program closes all descriptors from 3 on, as daemons do, and reuses their
//! numbers for its own files.
//!
//! The profiler of a child has a descriptor table of its own, so nothing changes. Where the system
//! gives it none, the child continues to record into its pool, which the parent reads, and its
//! files are neither used nor closed. `closed_descriptors_parent` tests a parent that does this.

use anyhow::ensure;
use integration_tests::helper_process::HelperProcess;
use integration_tests::patience::until;
use integration_tests::session;
use integration_tests::{own_process, own_process_tests};
use profiler_parent::{ProcessState, Session};

const CHILD: &str = env!("CARGO_BIN_EXE_child");

type Spawn = fn(&Session, &str, &str, &str) -> anyhow::Result<HelperProcess>;

/// A child closes all descriptors and has files of its own under their numbers. `is_lost` is
/// whether it loses its channel.
fn keeps_its_files(spawn: Spawn, beginning: &str, is_lost: bool) -> anyhow::Result<()> {
    let session = session::start(|builder| builder)?;
    let mut helper = spawn(&session, CHILD, "child", beginning)?;
    ensure!(
        until(|| session.processes()[1].state == ProcessState::Connected),
        "it does not connect"
    );
    helper.ask("record 1 500")?;
    let files = session.path("files");
    std::fs::create_dir(&files)?;
    let first = helper.ask(&format!("close-all {}", files.display()))?;
    assert_eq!(first, "ok 3", "a descriptor is still open");
    helper.ask("record 2 500")?;
    helper.ask("check-files")?;
    if is_lost {
        loses_its_channel(&session)?;
    }
    let (report, profile) = session.capture_gecko()?;
    assert_eq!(report.processes[1].counts.recorded(), 1500);
    assert_eq!(profile.process("child")?.counts()?.delivered, 1500);
    assert!(is_lost || profile.verdict("child")? == "complete");
    helper.ask("check-files")?;
    helper.ask("record 1 500")?;
    helper.ask("check-files")?;
    let (report, profile) = session.capture()?;
    assert_eq!(report.processes[1].counts.recorded(), 2000);
    assert_eq!(profile.process("child")?.counts()?.delivered, 2000);
    helper.ask("check-files")?;
    let is_connected = session.processes()[1].state == ProcessState::Connected;
    assert_eq!(is_connected, !is_lost);
    assert!(helper.end("exit 0")?.success());
    for (report, _) in session.capture_both()? {
        assert_eq!(report.processes[1].counts.recorded(), 2000);
    }
    Ok(())
}

/// The parent sends a message, which reaches a thread that has lost its descriptor.
fn loses_its_channel(session: &Session) -> anyhow::Result<()> {
    session.pause(); // the child does not pause
    ensure!(
        until(|| session.processes()[1].state != ProcessState::Connected),
        "the lost channel is not noticed"
    );
    session.resume();
    Ok(())
}

own_process_tests! {
    a_child_that_closes_all_descriptors_keeps_its_channel_and_its_files:
        keeps_its_files(HelperProcess::spawn, "init", false);
    an_untrusted_child_that_closes_all_descriptors_keeps_its_channel_and_its_files:
        keeps_its_files(HelperProcess::spawn_untrusted, "init", false);
    /// As before Linux 5.9.
    a_child_with_one_descriptor_table_that_closes_all_records_on_and_its_files_are_untouched:
        keeps_its_files(HelperProcess::spawn, "init-in-one-table", true);
    an_untrusted_child_with_one_descriptor_table_that_closes_all_records_on:
        keeps_its_files(HelperProcess::spawn_untrusted, "init-in-one-table", true);
}

#[test]
fn an_untrusted_child_can_write_to_no_file_of_the_parent() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn_untrusted(&session, CHILD, "child", "init")?;
    helper.ask("record 1 500")?;
    assert_eq!(helper.ask("append 64")?, "ok 0");
    for (_, profile) in session.capture_both()? {
        profile.holds("child", "complete", 500)?;
    }
    assert_eq!(
        helper.ask("append 64")?,
        "ok 0",
        "it can write to a file of the parent after a capture"
    );
    Ok(())
}
