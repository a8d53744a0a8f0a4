//! A helper process under the control of a test: the test sends commands as lines, and the process
//! answers each with a line.
//!
//! Used by most tests. `src/bin/child` describes the commands. A helper is killed when its
//! [`HelperProcess`] is dropped.

use std::io::{BufReader, Read};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, ensure};
use profiler_parent::{ProcessReport, ProcessState, ProfiledChild, Session};

use crate::dialogue;
use crate::patience::until;

/// A helper process.
#[derive(Debug)]
pub struct HelperProcess {
    /// The session's handle to the process.
    pub child: ProfiledChild,
    /// Its standard output.
    pub stdout: BufReader<ChildStdout>,
    /// Its first line of output: the status of its profiler.
    pub status: String,
}

impl HelperProcess {
    /// Starts the helper `program`. `beginning` selects how it begins. Waits until it has begun
    /// and, if it records, until it is connected.
    ///
    /// # Errors
    /// When it cannot be started, ends at once or does not connect.
    pub fn spawn(
        session: &Session,
        program: &str,
        name: &str,
        beginning: &str,
    ) -> anyhow::Result<Self> {
        let helper = Self::spawn_as(session, program, name, beginning)?;
        if helper.status == "Recording" {
            let pid = helper.child.id();
            let connected = |report: &ProcessReport| {
                report.pid == pid && report.state == ProcessState::Connected
            };
            ensure!(
                until(|| session.processes().iter().any(connected)),
                "it does not connect"
            );
        }
        Ok(helper)
    }

    /// Starts the helper `program`, and waits until it has begun, but not until it is connected.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_as(
        session: &Session,
        program: &str,
        name: &str,
        beginning: &str,
    ) -> anyhow::Result<Self> {
        Self::begin(session.spawn(name, command(program, beginning))?)
    }

    /// Starts a helper with a command that a test has made with [`command`], and waits until it has
    /// begun, but not until it is connected.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_by(session: &Session, name: &str, command: Command) -> anyhow::Result<Self> {
        Self::begin(session.spawn(name, command)?)
    }

    /// Starts the helper `program` as an untrusted child, and waits until it has begun, but not
    /// until it is connected.
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
        let mut helper = Self {
            child,
            stdout,
            status: String::new(),
        };
        helper.status = helper.line()?;
        Ok(helper)
    }

    /// Starts `count` helpers that record, with the names `child-0`, `child-1` and so on.
    ///
    /// # Errors
    /// As [`Self::spawn`].
    pub fn spawn_many(session: &Session, program: &str, count: usize) -> anyhow::Result<Vec<Self>> {
        (0..count)
            .map(|n| Self::spawn(session, program, &format!("child-{n}"), "init"))
            .collect()
    }

    /// Sends a command, and waits for the answer.
    ///
    /// # Errors
    /// When the process ends, or answers that the command failed.
    pub fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        dialogue::ask(&mut self.child.stdin, &mut self.stdout, command)
    }

    /// Sends each of these helpers a command, and waits for its answer.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_all(helpers: &mut [Self], command: &str) -> anyhow::Result<()> {
        let mut helpers = helpers.iter_mut();
        helpers.try_for_each(|helper| helper.ask(command).map(drop))
    }

    /// Waits until the process records no more. Returns `false` if it records on.
    pub fn stops_recording(&mut self) -> bool {
        until(|| self.ask("active").is_ok_and(|answer| answer == "ok false"))
    }

    /// Sends a command.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        dialogue::tell(&mut self.child.stdin, command)
    }

    /// Reads one line of output.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn line(&mut self) -> anyhow::Result<String> {
        dialogue::line(&mut self.stdout)
    }

    /// Reads the remaining output, until the process ends.
    ///
    /// # Errors
    /// When the output cannot be read.
    pub fn rest(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut output = Vec::new();
        self.stdout.read_to_end(&mut output)?;
        Ok(output)
    }

    /// Sends a command that ends the process, and waits for the end.
    ///
    /// # Errors
    /// When the process has ended already, or its status is unknown.
    pub fn end(&mut self, command: &str) -> anyhow::Result<ExitStatus> {
        self.tell(command)?;
        self.child.wait().context("its exit status is unknown")
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: i32) {
        let pid = self.pid().cast_signed();
        // SAFETY: takes only numbers. The number belongs to the process until the session reaps it.
        #[allow(unsafe_code)]
        unsafe {
            libc::kill(pid, signal);
        }
    }

    /// Stops the process with SIGSTOP, and waits until it is stopped. Returns `false` if it is not.
    pub fn freeze(&self) -> bool {
        self.signal(libc::SIGSTOP);
        crate::patience::until(|| crate::own::state_of(self.pid()) == Some('T'))
    }

    /// The process number.
    pub fn pid(&self) -> u32 {
        self.child.id().get()
    }
}

/// Returns the command that starts the helper `program`. A test can change it.
pub fn command(program: &str, beginning: &str) -> Command {
    let mut command = Command::new(program);
    command
        .arg(beginning)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

impl Drop for HelperProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
