//! The helper process in the hands of a test: told what to do by lines, answers with lines.
//!
//! What it can do stands in `src/bin/child`. A helper that is dropped is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, bail, ensure};
use profiler_parent::{ProcessReport, ProcessState, ProfiledChild, Session};

use crate::patience::until;

/// A helper process.
#[derive(Debug)]
pub struct HelperProcess {
    /// The session's handle to it.
    pub child: ProfiledChild,
    /// What it says.
    pub stdout: BufReader<ChildStdout>,
    /// What it said of its profiler when it began.
    pub status: String,
}

impl HelperProcess {
    /// Starts the helper `program`; `beginning` says how it begins. Waits until it has begun, and
    /// if it records until it has connected.
    ///
    /// # Errors
    /// When it cannot be started, or ends at once.
    pub fn spawn(session: &Session, program: &str, name: &str, beginning: &str) -> anyhow::Result<Self> {
        let helper = Self::spawn_as(session, program, name, beginning)?;
        if helper.status == "Recording" {
            let pid = helper.child.id();
            let connected =
                |report: &ProcessReport| report.pid == pid && report.state == ProcessState::Connected;
            ensure!(until(|| session.processes().iter().any(connected)), "it does not connect");
        }
        Ok(helper)
    }

    /// Starts the helper `program` and waits until it has begun, connected or not.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_as(session: &Session, program: &str, name: &str, beginning: &str) -> anyhow::Result<Self> {
        Self::begin(session.spawn(name, command(program, beginning))?)
    }

    /// Starts the test child with a command that a test has made with [`command`], and waits until
    /// it has started.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_by(session: &Session, name: &str, command: Command) -> anyhow::Result<Self> {
        Self::begin(session.spawn(name, command)?)
    }

    /// Starts the helper `program` as one that is not trusted, and waits until it has begun,
    /// connected or not.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_untrusted(
        session: &Session,
        program: &str,
        name: &str,
        beginning: &str,
    ) -> anyhow::Result<Self> {
        Self::begin(session.spawn_untrusted(name, command(program, beginning))?)
    }

    fn begin(mut child: ProfiledChild) -> anyhow::Result<Self> {
        let stdout = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut helper = Self { child, stdout, status: String::new() };
        helper.status = helper.line()?;
        Ok(helper)
    }

    /// Starts `count` helpers that record, named `child-0` and so on.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_many(session: &Session, program: &str, count: usize) -> anyhow::Result<Vec<Self>> {
        (0..count).map(|n| Self::spawn(session, program, &format!("child-{n}"), "init")).collect()
    }

    /// Tells it something and waits for its answer.
    ///
    /// # Errors
    /// When it ends, or says that it failed.
    pub fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        self.tell(command)?;
        let answer = self.line()?;
        if let Some(error) = answer.strip_prefix("error ") {
            bail!("{command}: {error}");
        }
        Ok(answer)
    }

    /// Tells it something.
    ///
    /// # Errors
    /// When it has ended.
    pub fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("no pipe")?;
        Ok(writeln!(stdin, "{command}")?)
    }

    /// Reads a line of what it says.
    ///
    /// # Errors
    /// When it has ended.
    pub fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line)? == 0 {
            bail!("the helper process has ended");
        }
        Ok(line.trim_end().to_owned())
    }

    /// Reads all that it still says, until it ends.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn rest(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Tells it to end in some way, and waits for its end.
    ///
    /// # Errors
    /// When it has ended already, or its status is not known.
    pub fn end(&mut self, command: &str) -> anyhow::Result<ExitStatus> {
        self.tell(command)?;
        self.child.wait().context("somebody took its status")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        let pid = self.pid().cast_signed();
        // SAFETY: sends a signal to a process that the session has not reaped while it lives.
        #[allow(unsafe_code)]
        unsafe {
            libc::kill(pid, signal);
        }
    }

    /// Stops it, and waits until it stands still.
    pub fn freeze(&self) -> bool {
        self.signal(libc::SIGSTOP);
        crate::patience::until(|| crate::own::state_of(self.pid()) == Some('T'))
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id().get()
    }
}

/// The command for the test child `program`, for a test to change.
pub fn command(program: &str, beginning: &str) -> Command {
    let mut command = Command::new(program);
    command.arg(beginning).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
