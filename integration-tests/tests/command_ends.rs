//! Tests of the end of `profiler record`: where the profile is, and which messages there are.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::Context;
use integration_tests::{own_process, tools};

use crate::command_record_support::Recording;

#[test]
fn two_commands_at_once_write_two_profiles() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let start = || -> anyhow::Result<_> {
        Ok(Command::new(tools::profiler()?)
            .args(["record", "--", "sh", "-c", "read line"])
            .env("XDG_CACHE_HOME", tools::cache()?)
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?)
    };
    let mut commands = [start()?, start()?, start()?];
    for command in &mut commands {
        drop(command.stdin.take());
    }
    for command in &mut commands {
        command.wait()?;
    }
    let mut files: Vec<_> = fs::read_dir(&directory)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let expected = ["profile-2.json.gz", "profile-3.json.gz", "profile.json.gz"];
    assert_eq!(files, expected);
    for file in files {
        tools::info(&directory.path().join(file))?;
    }
    Ok(())
}

#[test]
fn a_profile_whose_directory_is_gone_is_kept_and_the_message_says_how_it_gets_there()
-> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let place = directory.path().join("its place");
    fs::create_dir(&place)?;
    let mut recording = Recording::start_in(
        directory,
        &["-o", "its place/out.json"],
        &["sh", "-c", "echo runs; read line"],
    )?;
    assert_eq!(recording.line()?, "runs");
    fs::remove_dir(&place)?;
    recording.tell("end")?;
    let ended = recording.end_with(2)?;
    let command = ended.error.split('`').find(|part| part.starts_with("mv "));
    let command = command.with_context(|| ended.error.clone())?;
    fs::create_dir(&place)?;
    let status = Command::new("sh").args(["-c", command]).status()?;
    assert!(status.success(), "{command}");
    let info = tools::info(&place.join("out.json"))?;
    assert_eq!(info["processes"][0]["verdict"], "complete", "{info}");
    Ok(())
}

#[test]
fn a_program_that_executes_another_one_is_not_said_to_be_missing() -> anyhow::Result<()> {
    own_process!();
    let ended = Recording::start(&["-o", "out.json"], &["sh", "-c", "exec cat /dev/null"])?;
    let ended = ended.end_with(0)?;
    assert_eq!(ended.error.lines().count(), 1, "{}", ended.error);
    Ok(())
}
