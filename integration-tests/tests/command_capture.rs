//! Tests of profiles while a recording goes on: `profiler capture`, and `profiler record
//! --capture-on-signal`: rows C10 to C13 of `docs/features.md`.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::foreign::is_installed;
use integration_tests::helper_process::HelperProcess;
use integration_tests::own::state_of;
use integration_tests::patience::until;
use integration_tests::profile::Profile;
use integration_tests::{own_process, tools};
use rustix::process::{Pid, Signal, kill_process};

use crate::command_record_support::{CHILD, Recording};
use crate::live_support;

/// Records the helper under this name.
fn record(options: &[&str]) -> anyhow::Result<Recording> {
    Recording::of_helper(&[&["-o", "out.json", "--name", "helper"], options].concat())
}

/// Captures everything from this target to this file of a directory.
fn capture(target: &str, directory: &Path, name: &str) -> anyhow::Result<Profile> {
    let path = directory.join(name);
    let path = path.to_str().context("a path")?;
    tools::succeed(&["capture", target, "--all", "-o", path])?;
    Profile::read(Path::new(path))
}

/// The number of the only child of a process that is the helper.
fn helper_below(pid: Pid) -> anyhow::Result<String> {
    let pid = pid.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let is_helper = |child: &&str| {
        fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|program| program == Path::new(CHILD))
    };
    let helper = children.split_whitespace().find(is_helper);
    Ok(helper.context("no helper")?.to_owned())
}

#[test]
fn c10_a_recording_is_captured_by_its_number_and_goes_on() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let mut recording = record(&[])?;
    recording.ask("mark 300")?;
    let command = recording.pid()?.as_raw_nonzero().to_string();
    let first = capture(&command, directory.path(), "first.json")?;
    first.holds("helper", "complete", 300)?;
    recording.ask("mark 100")?;
    // The number of the program is enough.
    let program = helper_below(recording.pid()?)?;
    let second = capture(&program, directory.path(), "second.json")?;
    second.holds("helper", "complete", 400)?;
    let packed = directory.path().join("third.json.gz");
    let words = [
        "capture",
        &command,
        "-o",
        packed.to_str().context("a path")?,
    ];
    tools::succeed(&words)?;
    assert!(
        fs::read(&packed)?.starts_with(&[0x1f, 0x8b]),
        "it is not compressed"
    );
    recording.ask("mark 50")?;
    let ended = recording.end_with_exit()?;
    Profile::read(&ended.path("out.json"))?.holds("helper", "complete", 450)?;
    assert_eq!(ended.files()?, ["out.json"]);
    Ok(())
}

#[test]
fn c10_a_process_that_is_not_recorded_is_an_error_and_leaves_no_file() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("out.json");
    let own = std::process::id().to_string();
    let said = tools::fail(&["capture", &own, "-o", path.to_str().context("a path")?])?;
    assert!(
        said.error.contains("is no `profiler record`"),
        "{}",
        said.error
    );
    assert_eq!(fs::read_dir(directory.path())?.count(), 0);
    Ok(())
}

#[test]
fn c10_a_recording_that_is_killed_leaves_an_error_and_no_file() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("out.json");
    let recording = record(&[])?;
    let pid = recording.pid()?;
    kill_process(pid, Signal::STOP)?;
    let number = pid.as_raw_nonzero().get().cast_unsigned();
    ensure!(until(|| state_of(number) == Some('T')), "it is not stopped");
    let mut client = Command::new(tools::profiler()?);
    client
        .args(["capture", &number.to_string(), "-o"])
        .arg(&path);
    let client = client.stderr(Stdio::piped()).spawn()?;
    // The system connects a client also to a stopped process.
    let waits = || state_of(client.id()) == Some('S') && is_connected(client.id());
    ensure!(until(waits), "it does not wait");
    recording.kill()?;
    let output = client.wait_with_output()?;
    let error = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert_eq!(fs::read_dir(directory.path())?.count(), 0, "{error}");
    Ok(())
}

/// Whether a process has a connected socket.
fn is_connected(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd"));
    let is_socket = |file: &fs::DirEntry| {
        fs::read_link(file.path()).is_ok_and(|name| name.to_string_lossy().starts_with("socket:"))
    };
    files.is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_socket(&file))))
}

/// A user without rights.
const NOBODY: u32 = 65_534;

/// Connects to the socket of the command with this number, and prints what it answers.
const ASKS: &str = "
import socket, sys
asker = socket.socket(socket.AF_UNIX)
asker.connect(b'\\0multiprocess-profiler/record/' + sys.argv[1].encode())
try:
    asker.sendall(b'capture 1 all\\n')
    print(asker.recv(100))
except OSError:
    print(b'')
";

#[test]
fn c11_another_user_gets_no_profile() -> anyhow::Result<()> {
    own_process!();
    if !rustix::process::geteuid().is_root() || !is_installed("python3") {
        return Ok(()); // only root can start a process of another user
    }
    let recording = record(&[])?;
    let number = recording.pid()?.as_raw_nonzero().to_string();
    let asks = |user: u32| -> anyhow::Result<String> {
        let mut command = Command::new("python3");
        command
            .args(["-c", ASKS, &number])
            .uid(user)
            .current_dir("/");
        let output = command.stderr(Stdio::inherit()).output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    assert_eq!(asks(NOBODY)?.trim(), "b''");
    let own = asks(0)?;
    // Python quotes bytes with an apostrophe in another way.
    assert!(
        own.starts_with("b'ok ") || own.starts_with("b\"ok "),
        "{own}"
    );
    recording.end_with_exit().map(drop)
}

/// The captures in the directory of a recording.
fn captures(all: &[String]) -> Vec<String> {
    let is_capture =
        |name: &&String| name.starts_with("out-capture-") && name.ends_with(".json.gz");
    all.iter().filter(is_capture).cloned().collect()
}

#[test]
fn c12_a_chosen_signal_writes_a_profile_and_is_not_passed_on() -> anyhow::Result<()> {
    own_process!();
    let mut recording = record(&["--capture-on-signal", "USR2"])?;
    recording.ask("mark 300")?;
    for _ in 0..2 {
        kill_process(recording.pid()?, Signal::USR2)?;
        recording.until_told("-flag.json.gz\n")?;
    }
    // It would have ended the program.
    recording.ask("mark 100")?;
    let ended = recording.end_with_exit()?;
    Profile::read(&ended.path("out.json"))?.holds("helper", "complete", 400)?;
    let files = ended.files()?;
    let captures = captures(&files);
    assert_eq!((captures.len(), files.len()), (2, 3), "{files:?}");
    let profile = Profile::read(&ended.path(&captures[0]))?;
    assert_eq!(profile.process("helper")?.named("numbered").count(), 300);
    Ok(())
}

#[test]
fn c12_other_signals_are_passed_on() -> anyhow::Result<()> {
    own_process!();
    let mut recording = record(&["--capture-on-signal", "USR2"])?;
    recording.ask("mark 10")?;
    kill_process(recording.pid()?, Signal::USR1)?;
    let ended = recording.end()?;
    assert_eq!(ended.signal, Some(10), "{}", ended.error);
    assert_eq!(ended.files()?, ["out.json"], "{}", ended.error);
    Ok(())
}

#[test]
fn c13_a_live_page_is_captured_by_its_address() -> anyhow::Result<()> {
    own_process!();
    let directory = tempfile::tempdir()?;
    let session = live_support::start()?;
    let (live, _page) = live_support::serve(&session)?;
    let mut child = HelperProcess::spawn(&session, CHILD, "child", "init")?;
    child.ask("mark 300")?;
    let profile = capture(&live.url(), directory.path(), "all.json")?;
    profile.holds("child", "complete", 300)?;
    let path = directory.path().join("last.json");
    let words = ["capture", &live.url(), "--last", "1h", "-o"];
    let words = [&words[..], &[path.to_str().context("a path")?]].concat();
    tools::succeed(&words)?;
    let profile = Profile::read(&path)?;
    assert_eq!(profile.process("child")?.named("numbered").count(), 300);
    let gone = live.url();
    drop(live);
    tools::fail(&["capture", &gone, "-o", path.to_str().context("a path")?])?;
    Ok(())
}
