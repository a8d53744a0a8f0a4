//! Tests of `profiler record` with a process that outlives the program.

use std::fs::OpenOptions;

use integration_tests::{own_process, tools};

use crate::command_record_support::Recording;

/// Leaves a process that runs until the pipe is opened and closed. Ends once the process waits for
/// that: its libraries are loaded then.
const LEAVES: &str = "mkfifo pipe; setsid cat pipe </dev/null >/dev/null 2>&1 & \
    until read stat </proc/$!/stat && [ \"${stat#*(cat) S}\" != \"$stat\" ]; do :; done; exit 4";

/// Lets the process end that was left.
fn release(pipe: &std::path::Path) -> anyhow::Result<()> {
    drop(OpenOptions::new().write(true).open(pipe)?);
    Ok(())
}

#[test]
fn a_process_that_outlives_the_program_is_told() -> anyhow::Result<()> {
    own_process!();
    let ended = Recording::start(&["-o", "out.json"], &["sh", "-c", LEAVES])?.end_with(4)?;
    assert!(
        ended.error.contains("one process still runs, cat ("),
        "{}",
        ended.error
    );
    assert!(ended.error.contains("--wait"), "{}", ended.error);
    release(&ended.path("pipe"))
}

#[test]
fn with_wait_the_command_waits_for_the_last_process() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let pipe = directory.path().join("pipe");
    let mut recording = Recording::start_in(
        directory,
        &["--wait", "-o", "out.json"],
        &["sh", "-c", LEAVES],
    )?;
    recording.until_told("waiting for their end")?;
    release(&pipe)?;
    let ended = recording.end_with(4)?;
    let info = tools::info(&ended.path("out.json"))?;
    let rows = info["processes"].as_array().into_iter().flatten();
    let verdicts: Vec<_> = rows
        .filter(|row| row["name"] == "cat")
        .map(|row| row["verdict"].clone())
        .collect();
    assert_eq!(verdicts, ["complete"], "{info}");
    Ok(())
}

#[test]
fn a_program_without_children_is_not_said_to_leave_any() -> anyhow::Result<()> {
    own_process!();
    let ended = Recording::start(&["-o", "out.json"], &["sh", "-c", "true | cat"])?.end_with(0)?;
    assert!(!ended.error.contains("still run"), "{}", ended.error);
    Ok(())
}
