//! Tests of programs that have a session of their own and are processes of another session.
//!
//! Each process is recorded by one of the two sessions. Both profiles exist, and each names the
//! processes whose data is in the other one.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use integration_tests::helper_process::HelperProcess;
use integration_tests::joined::{self, has_marked, is_complete};
use integration_tests::own_process;
use integration_tests::patience::until;
use integration_tests::profile::Profile;
use integration_tests::{session, tools};

const CHILD: &str = env!("CARGO_BIN_EXE_child");
/// A program with a session of its own.
const PARENT: &str = env!("CARGO_BIN_EXE_parent");
/// The memory limit of that session.
const LIMIT: &str = "16777216";

/// `profiler record` with a program that has a session of its own and obeys commands.
struct Recording {
    command: Child,
    program: ChildStdin,
    answers: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
    /// The number of the program's process.
    pid: u32,
}

impl Recording {
    /// Starts it. `joins` lets the program join the command's session before it starts its own.
    fn start(joins: bool) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let errors = File::create(directory.path().join("said"))?;
        Self::start_in(directory, joins, errors)
    }

    fn start_in(directory: tempfile::TempDir, joins: bool, errors: File) -> anyhow::Result<Self> {
        let mut command = Command::new(tools::profiler()?);
        command
            .args(["record", "-o", "outer.json", "--format", "gecko", "--"])
            .args([PARENT, LIMIT, "-"])
            .current_dir(directory.path())
            .env("XDG_CACHE_HOME", tools::cache()?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors);
        if joins {
            command.env("TEST_PARENT_JOINS", "1");
        }
        let mut command = command.spawn()?;
        let mut recording = Self {
            program: command.stdin.take().context("no pipe")?,
            answers: BufReader::new(command.stdout.take().context("no pipe")?),
            command,
            directory,
            pid: 0,
        };
        recording.answer()?; // the session of the program has started
        recording.pid = recording.ask("pid")?.parse()?;
        Ok(recording)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The answer to a command, without `ok`.
    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer = line.trim_end().strip_prefix("ok");
        Ok(answer.with_context(|| line.clone())?.trim().to_owned())
    }

    fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        writeln!(self.program, "{command}")?;
        self.answer()
    }

    /// Starts a worker, which records a hundred markers for the program's session, and waits for
    /// its end.
    fn work(&mut self, name: &str) -> anyhow::Result<u32> {
        let output = self.path(name);
        let file = output.display();
        let spawn = format!("spawn {name} /dev/null {file} {CHILD} mark-and-exit");
        let pid: u32 = self.ask(&spawn)?.parse()?;
        let process = format!("/proc/{pid}");
        ensure!(until(|| !Path::new(&process).exists()), "it does not end");
        ensure!(fs::read_to_string(output)? == "Recording\n", "not recorded");
        Ok(pid)
    }

    /// Waits until the command has said this, while the program runs.
    fn is_told(&self, text: &str) -> anyhow::Result<()> {
        let said = self.path("said");
        let is_said = || fs::read_to_string(&said).is_ok_and(|said| said.contains(text));
        ensure!(until(is_said), "{:?}", fs::read_to_string(&said));
        Ok(())
    }

    /// Ends the program. Returns the profile of the command.
    fn end(mut self) -> anyhow::Result<(Profile, tempfile::TempDir)> {
        writeln!(self.program, "exit")?;
        let status = self.command.wait()?;
        ensure!(status.success(), "{status}");
        Ok((Profile::read(&self.path("outer.json"))?, self.directory))
    }
}

fn elsewhere(session: u32) -> String {
    format!("missing: recorded by another session, of process {session}")
}

/// When a process has lived, from the gathering log.
fn life_of(profile: &Profile, pid: u32) -> anyhow::Result<(f64, f64)> {
    let mut rows = profile.log_rows()?.iter();
    let row = rows.find(|row| row["pid"] == pid).context("not listed")?;
    let time = |key: &str| row[key].as_f64().with_context(|| format!("{row}"));
    Ok((time("began_TSms")?, time("ended_TSms")?))
}

/// The number of markers with this name in all processes.
fn count(profile: &Profile, name: &str) -> usize {
    let processes = profile.processes.iter();
    processes.map(|process| process.named(name).count()).sum()
}

/// Checks the profile of the program's session: it has the data of both workers.
fn has_the_workers(profile: &Profile) -> anyhow::Result<()> {
    for name in ["one", "two"] {
        ensure!(has_marked(profile.process(name)?, 100)?, "{name}");
        profile.process(name)?.counts()?;
        let verdict = profile.verdict(name)?;
        ensure!(verdict == "complete", "{name}: {verdict}");
    }
    Ok(())
}

#[test]
fn a_program_keeps_its_session_and_the_command_names_what_it_does_not_record() -> anyhow::Result<()>
{
    own_process!();
    let mut recording = Recording::start(false)?;
    let pid = recording.pid;
    recording.is_told("has a profiler session of its own, which records it and the processes")?;
    assert_eq!(recording.ask("unrecorded")?, "-");
    recording.ask("text inner")?;
    let workers = [recording.work("one")?, recording.work("two")?];
    recording.ask("capture inner.json")?;
    let inner = Profile::read(&recording.path("inner.json"))?;
    has_the_workers(&inner)?;
    assert_eq!(inner.verdict("parent")?, "complete");
    assert_eq!((count(&inner, "text"), count(&inner, "numbered")), (1, 200));
    let (outer, directory) = recording.end()?;
    assert_eq!((count(&outer, "text"), count(&outer, "numbered")), (0, 0));
    let names = ["parent", "one", "two"];
    for (name, pid_of_name) in names.into_iter().zip([pid, workers[0], workers[1]]) {
        assert_eq!(outer.verdict(name)?, elsewhere(pid));
        let (began, ended) = life_of(&outer, pid_of_name)?;
        assert!(began < ended, "{name}: {began} to {ended}");
    }
    let mut shown = outer.incomplete();
    shown.sort();
    let mut expected = names.map(|name| (name.to_owned(), elsewhere(pid)));
    expected.sort();
    assert_eq!(shown, expected);
    is_shown_as_a_tree(&directory.path().join("outer.json"))
}

/// Checks that `profiler info` shows the workers below the program.
fn is_shown_as_a_tree(profile: &Path) -> anyhow::Result<()> {
    let text = tools::run(&[Path::new("info"), profile])?.out;
    let lines: Vec<&str> = text.lines().skip(1).take(4).collect();
    let begins = ["profiler ", "  parent ", "    one ", "    two "];
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{text}");
    }
    for line in lines.iter().skip(1) {
        assert!(line.contains("recorded by another session"), "{text}");
        assert!(line.contains("; it ran from "), "{text}");
    }
    Ok(())
}

#[test]
fn the_profile_is_written_if_no_message_can_be() -> anyhow::Result<()> {
    own_process!();
    let full = File::options().write(true).open("/dev/full")?;
    let recording = Recording::start_in(tempfile::tempdir()?, false, full)?;
    let pid = recording.pid;
    let (profile, _directory) = recording.end()?;
    assert_eq!(profile.verdicts_of(pid)?, [elsewhere(pid)]);
    Ok(())
}

#[test]
fn a_program_that_has_joined_stays_with_that_session_and_its_own_records_its_children()
-> anyhow::Result<()> {
    own_process!();
    let mut recording = Recording::start(true)?;
    let pid = recording.pid;
    let why = "it records for another session, which it joined before";
    assert_eq!(recording.ask("unrecorded")?, why);
    recording.ask("text outer")?;
    recording.work("one")?;
    recording.work("two")?;
    recording.is_told("has a profiler session of its own, which records the processes that it")?;
    recording.ask("capture inner.json")?;
    // Neither a pause nor the end of the session reaches the recorder of the program.
    recording.ask("pause")?;
    recording.ask("text outer")?;
    recording.ask("end")?;
    recording.ask("text outer")?;
    let inner = Profile::read(&recording.path("inner.json"))?;
    has_the_workers(&inner)?;
    let not_profiled = format!("missing: not profiled: {why}");
    assert_eq!(inner.verdict("parent")?, not_profiled);
    assert_eq!(count(&inner, "text"), 0);
    let own = ("parent".to_owned(), not_profiled);
    assert_eq!(inner.incomplete(), [own]);
    let (outer, _directory) = recording.end()?;
    assert_eq!(outer.verdict("parent")?, "complete");
    assert_eq!(outer.process("parent")?.named("text").count(), 3);
    assert_eq!(count(&outer, "numbered"), 0);
    for name in ["one", "two"] {
        assert_eq!(outer.verdict(name)?, elsewhere(pid));
    }
    Ok(())
}

/// A program with a session of its own, started by a session of the test.
fn program(session: &session::TestSession) -> anyhow::Result<HelperProcess> {
    let mut command = Command::new(PARENT);
    command.args([LIMIT, "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    HelperProcess::spawn_by(session, "program", command)
}

#[test]
fn processes_that_such_a_program_starts_without_its_session_join_under_their_own_names()
-> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut program = program(&session)?;
    let pid = program.pid();
    let is_listed = || {
        let reports = joined::reports_of(&session, pid);
        reports.len() == 1 && reports[0].recorded_by.is_some_and(|by| by.get() == pid)
    };
    assert!(until(is_listed), "{:?}", joined::reports_of(&session, pid));
    // It does not take the memory that was handed to the program.
    program.ask(&format!("run {CHILD} mark-and-exit"))?;
    let reports = joined::wait_until_ended(&session, 1)?;
    assert_eq!(reports[0].name, "child");
    let (_, profile) = session.capture()?;
    is_complete(&profile, &reports[0], 100)?;
    assert_eq!(profile.verdict("program")?, elsewhere(pid));
    Ok(())
}

#[test]
fn a_process_with_a_session_of_its_own_does_not_leave_it() -> anyhow::Result<()> {
    own_process!();
    let session = session::start(|builder| builder)?;
    let mut helper = HelperProcess::spawn_as(&session, CHILD, "own", "own-session")?;
    let why = "off: this process records for a session of its own";
    assert_eq!(helper.status, why);
    helper.ask("mark 50")?;
    assert_eq!(helper.ask("active")?, "ok true");
    let counts = helper.ask("counts")?;
    assert!(counts.starts_with("ok 50 50 0 0"), "{counts}");
    Ok(())
}
