//! Tests of signals to `profiler record`: each signal arrives once at the program, whether it is
//! sent to the command or to the process group, and the command ends as its program does.

use std::process::Command;

use anyhow::ensure;
use integration_tests::foreign::is_installed;
use integration_tests::own::state_of;
use integration_tests::patience::until;
use integration_tests::{own_process, tools};

use crate::command_record_support::Recording;

/// Prints the number of each signal that it handles, until its input has a line.
const COUNTS: &str = "
import os, signal, sys
def got(number, frame): os.write(1, b'%d\\n' % number)
for number in sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}):
    signal.signal(number, got)
os.write(1, b'ready\\n')
sys.stdin.readline()
";
const USR2: i32 = 12;

/// The program that counts signals, below the command and these further words.
fn counting(options: &[&str], before: &[&str]) -> anyhow::Result<Recording> {
    let program = [before, &["python3", "-c", COUNTS]].concat();
    let mut recording = Recording::start(&[&["-o", "out.json"], options].concat(), &program)?;
    ensure!(recording.line()? == "ready", "it does not run");
    Ok(recording)
}

/// Sends a signal to the command, or to its process group.
fn send(recording: &Recording, signal: i32, to_group: bool) -> anyhow::Result<()> {
    let pid = recording.pid()?.as_raw_nonzero().get();
    let target = if to_group { -pid } else { pid };
    // The shell's own, which knows every number.
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{signal} {target}")])
        .status()?;
    ensure!(status.success(), "{signal} cannot be sent");
    Ok(())
}

/// Sends a signal, and checks that the program gets it once: what it gets next is another signal,
/// which is sent to the command alone when the first one has arrived.
fn arrives_once(recording: &mut Recording, signal: i32, to_group: bool) -> anyhow::Result<()> {
    send(recording, signal, to_group)?;
    ensure!(recording.line()? == signal.to_string(), "not {signal}");
    send(recording, USR2, false)?;
    let next = recording.line()?;
    ensure!(next == USR2.to_string(), "{next} after {signal}");
    Ok(())
}

/// Ends the program, and checks that it has got nothing else and that there is a profile.
fn end(mut recording: Recording) -> anyhow::Result<()> {
    recording.tell("end")?;
    let rest = recording.line()?;
    ensure!(rest.is_empty(), "{rest}");
    let ended = recording.end_with(0)?;
    ensure!(ended.path("out.json").exists(), "{}", ended.error);
    Ok(())
}

#[test]
fn a_signal_for_the_command_alone_arrives_once_at_the_program() -> anyhow::Result<()> {
    own_process!();
    let mut recording = counting(&[], &[])?;
    // HUP, INT, QUIT, ABRT, USR1, PIPE, ALRM, TERM, TTIN, XCPU, WINCH, IO, and a real-time signal.
    for signal in [1, 2, 3, 6, 10, 13, 14, 15, 21, 24, 28, 29, 37] {
        arrives_once(&mut recording, signal, false)?;
    }
    end(recording)
}

#[test]
fn a_signal_for_the_group_arrives_once_at_the_program() -> anyhow::Result<()> {
    own_process!();
    let mut recording = counting(&[], &[])?;
    for signal in [1, 2, 3, 10, 14, 15, 28, 37] {
        arrives_once(&mut recording, signal, true)?;
    }
    end(recording)
}

#[test]
fn a_program_in_another_group_gets_the_signals_of_the_commands_group() -> anyhow::Result<()> {
    own_process!();
    let mut recording = counting(&[], &["setsid"])?;
    arrives_once(&mut recording, 15, true)?;
    end(recording)
}

#[test]
fn a_signal_arrives_once_through_two_commands() -> anyhow::Result<()> {
    own_process!();
    let command = tools::profiler()?;
    let command = command.to_string_lossy();
    let inner = [&*command, "record", "-o", "inner.json", "--"];
    let mut recording = counting(&[], &inner)?;
    for to_group in [false, true] {
        arrives_once(&mut recording, 15, to_group)?;
    }
    end(recording)
}

#[test]
fn the_command_dies_of_the_signal_of_its_program_after_the_profile_is_written() -> anyhow::Result<()>
{
    own_process!();
    for signal in [2, 3, 9, 11, 13, 14, 15, 37] {
        // Long enough to have an entry.
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let program = format!("{work}; kill -{signal} $$");
        let recording = Recording::start(&["-o", "out.json"], &["sh", "-c", &program])?;
        let ended = recording.end()?;
        assert_eq!(ended.signal, Some(signal), "{}", ended.error);
        assert_eq!(ended.files()?, ["out.json"], "{}", ended.error);
        let is_crash = ended.error.contains("crashed");
        assert_eq!(is_crash, signal == 11, "{}", ended.error);
    }
    Ok(())
}

#[test]
fn ctrl_c_ends_a_loop_of_commands() -> anyhow::Result<()> {
    own_process!();
    if !is_installed("bash") {
        return Ok(());
    }
    let command = tools::profiler()?;
    let script = format!(
        "for i in 1 2 3; do '{}' record -o $i.json -- sh -c 'echo ready; exec sleep 600'; done",
        command.display()
    );
    // The outer command is only a group of its own here.
    let mut recording = Recording::start(&["--no-agent"], &["bash", "-c", &script])?;
    assert_eq!(recording.line()?, "ready");
    send(&recording, 2, true)?;
    let ended = recording.end()?;
    assert_eq!(ended.signal, Some(2), "{}", ended.error);
    // The second one is that of the outer command.
    let files = ["1.json", "profile.json.gz"];
    assert_eq!(ended.files()?, files, "{}", ended.error);
    Ok(())
}

#[test]
fn job_control_stops_and_continues_the_command() -> anyhow::Result<()> {
    own_process!();
    let mut recording = Recording::start(
        &["--no-agent", "-o", "out.json"],
        &["sh", "-c", "echo ready; read line"],
    )?;
    ensure!(recording.line()? == "ready", "it does not run");
    let pid = recording.pid()?.as_raw_nonzero().get().cast_unsigned();
    send(&recording, libc::SIGTSTP, false)?;
    ensure!(until(|| state_of(pid) == Some('T')), "it is not stopped");
    send(&recording, libc::SIGCONT, false)?;
    ensure!(until(|| state_of(pid) != Some('T')), "it does not go on");
    recording.tell("end")?;
    recording.end_with(0)?;
    Ok(())
}
