//! Helpers of the tests `command_record` and `command_record_profile`: a running `profiler record`
//! with the helper, or another program, as its program.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail, ensure};
use integration_tests::patience::until;
use integration_tests::profile::Profile;
use integration_tests::tools;
use profiler_core::groups::Probes;
use rustix::process::{Pid, Signal};

pub(crate) const CHILD: &str = env!("CARGO_BIN_EXE_child");

/// Options for a profile that [`Profile`] can read.
pub(crate) const PLAIN: [&str; 4] = ["-o", "out.json", "--format", "gecko"];

/// The command with the program that it runs. The two share their standard streams: the program
/// reads what the test writes, and the test reads what the program prints.
pub(crate) struct Recording {
    command: Child,
    stdout: BufReader<ChildStdout>,
    directory: tempfile::TempDir,
}

/// The results of a command that has ended.
pub(crate) struct Ended {
    /// As a shell shows it: 128 + N if signal N has ended the command.
    pub(crate) code: Option<i32>,
    /// The signal that has ended the command.
    pub(crate) signal: Option<i32>,
    pub(crate) error: String,
    directory: tempfile::TempDir,
}

impl Recording {
    /// Starts the command in a separate process group, in an empty directory.
    pub(crate) fn start(options: &[&str], program: &[&str]) -> anyhow::Result<Self> {
        Self::start_in(tempfile::tempdir()?, options, program)
    }

    pub(crate) fn start_in(
        directory: tempfile::TempDir,
        options: &[&str],
        program: &[&str],
    ) -> anyhow::Result<Self> {
        Self::run(directory, &[options, &["--"], program].concat())
    }

    pub(crate) fn run(directory: tempfile::TempDir, words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(tools::profiler()?);
        command
            .arg("record")
            .args(words)
            .env("XDG_CACHE_HOME", tools::cache()?)
            .current_dir(directory.path());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut command = tools::with_default_signals(&mut command).spawn()?;
        let stdout = BufReader::new(command.stdout.take().context("no pipe")?);
        Ok(Self {
            command,
            stdout,
            directory,
        })
    }

    /// Starts the command with the helper as its program, and waits until the helper records.
    pub(crate) fn of_helper(options: &[&str]) -> anyhow::Result<Self> {
        let mut recording = Self::start(options, &[CHILD, "init"])?;
        ensure!(recording.line()? == "Recording", "it does not record");
        Ok(recording)
    }

    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    pub(crate) fn tell(&mut self, what: &str) -> anyhow::Result<()> {
        Ok(writeln!(
            self.command.stdin.as_mut().context("no pipe")?,
            "{what}"
        )?)
    }

    pub(crate) fn ask(&mut self, what: &str) -> anyhow::Result<()> {
        self.tell(what)?;
        let answer = self.line()?;
        ensure!(answer.starts_with("ok"), "{what}: {answer}");
        Ok(())
    }

    /// Waits until the program has carried out a request of the command, which must have the option
    /// `--groups`: the first requests tell the program to measure groups. The program connects, and
    /// says its name, before it receives any request.
    pub(crate) fn until_groups_are_measured(&mut self) -> anyhow::Result<()> {
        let mut answer = Ok(String::new());
        let mut is_measured = || {
            answer = self.tell("probes").and_then(|()| self.line());
            !matches!(&answer, Ok(answer) if answer == "ok 0")
        };
        ensure!(until(&mut is_measured), "groups are not measured");
        let answer = answer?;
        ensure!(answer == format!("ok {}", Probes::JANK.bits()), "{answer}");
        Ok(())
    }

    /// Waits until the command has said this on its standard error. [`Ended::error`] lacks what it
    /// has said until then.
    pub(crate) fn until_told(&mut self, text: &str) -> anyhow::Result<()> {
        let stderr = self.command.stderr.as_mut().context("no pipe")?;
        let mut told = Vec::new();
        while !told.ends_with(text.as_bytes()) {
            // Without a buffer, which would keep what is told later.
            let mut byte = [0];
            ensure!(stderr.read(&mut byte)? == 1, "{text:?} is not told");
            told.extend(byte);
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> anyhow::Result<Pid> {
        Pid::from_raw(self.command.id().cast_signed()).context("no process")
    }

    /// Ends the helper, and waits for the command, which must succeed.
    pub(crate) fn end_with_exit(mut self) -> anyhow::Result<Ended> {
        self.tell("exit 0")?;
        self.end_with(0)
    }

    /// As [`Self::end`]; the exit code must be this one.
    pub(crate) fn end_with(self, code: i32) -> anyhow::Result<Ended> {
        let ended = self.end()?;
        ensure!(
            ended.code == Some(code),
            "{:?}: {}",
            ended.code,
            ended.error
        );
        Ok(ended)
    }

    pub(crate) fn end(self) -> anyhow::Result<Ended> {
        let Self {
            mut command,
            stdout,
            directory,
        } = self;
        // The input stays open, because the helper ends at the end of its input.
        let stdin = command.stdin.take();
        if !until(|| command.try_wait().is_ok_and(|status| status.is_some())) {
            let group = Pid::from_raw(command.id().cast_signed()).context("no process")?;
            rustix::process::kill_process_group(group, Signal::KILL)?;
            bail!("it does not end");
        }
        let output = command.wait_with_output()?;
        drop((stdin, stdout));
        let signal = output.status.signal();
        Ok(Ended {
            code: output.status.code().or(signal.map(|signal| 128 + signal)),
            signal,
            error: String::from_utf8(output.stderr)?,
            directory,
        })
    }
}

impl Recording {
    /// Kills the command. The program ends, too, because its input is closed.
    pub(crate) fn kill(self) -> anyhow::Result<()> {
        let Self {
            mut command,
            stdout,
            ..
        } = self;
        command.kill()?;
        command.wait_with_output()?; // closes the input
        drop(stdout);
        Ok(())
    }
}

impl Ended {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn files(&self) -> anyhow::Result<Vec<String>> {
        let names =
            fs::read_dir(self.directory.path())?.map(|entry| entry.map(|entry| entry.file_name()));
        let mut names: Vec<String> = names
            .map(|name| Ok(name?.to_string_lossy().into_owned()))
            .collect::<anyhow::Result<_>>()?;
        names.sort();
        Ok(names)
    }

    /// Checks that the profile has this many markers of each of these threads, that its counts add
    /// up, and that it is the only file.
    pub(crate) fn check(&self, name: &str, expected: &[(u32, u64)]) -> anyhow::Result<Profile> {
        let profile = Profile::read(&self.path("out.json"))?;
        let process = profile.process(name)?;
        let numbers = process.numbers()?;
        for (thread, count) in expected {
            let found = numbers
                .get(thread)
                .with_context(|| format!("no marker of thread {thread}: {}", self.error))?;
            ensure!(found.iter().copied().eq(0..*count), "{thread}: {found:?}");
        }
        process.counts()?;
        ensure!(self.files()? == ["out.json"], "{:?}", self.files()?);
        Ok(profile)
    }
}
