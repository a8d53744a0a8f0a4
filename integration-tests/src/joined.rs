//! Processes that join the session of a test by themselves, because others than the session start
//! them.
//!
//! Used by the tests `joining*`. The helper process is `src/bin/child`; it begins with `join`.
//! Helpers are killed when their [`JoinedHelper`] is dropped.

use std::io::BufReader;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, bail, ensure};
use profiler_parent::{ProcessReport, ProcessState, Session};

use crate::dialogue;
use crate::helper_process::command;
use crate::patience::until;
use crate::profile::{Process, Profile};

/// A helper process that the test starts with `std::process::Command`.
#[derive(Debug)]
pub struct JoinedHelper {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Its first line of output: the status of its profiler.
    pub status: String,
}

impl JoinedHelper {
    /// Starts the helper `program` in an environment that the session has prepared, and waits until
    /// it has begun and, if it records, until it is connected.
    ///
    /// # Errors
    /// When it cannot be started, ends at once or does not connect.
    pub fn start(session: &Session, program: &str, beginning: &str) -> anyhow::Result<Self> {
        let mut command = command(program, beginning);
        session.prepare(&mut command)?;
        let helper = Self::start_by(command)?;
        if helper.status == "Recording" {
            wait_until_connected(session, helper.pid())?;
        }
        Ok(helper)
    }

    /// Starts a helper with a command that a test has made with [`command`], and waits until it has
    /// begun.
    ///
    /// # Errors
    /// When it cannot be started, or ends at once.
    pub fn start_by(mut command: Command) -> anyhow::Result<Self> {
        Self::of_child(command.spawn()?)
    }

    /// Waits until a helper has begun that was started with a command of [`command`].
    ///
    /// # Errors
    /// When it ends at once.
    pub fn of_child(mut child: Child) -> anyhow::Result<Self> {
        let stdout = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut helper = Self {
            child,
            stdout,
            status: String::new(),
        };
        helper.status = helper.line()?;
        Ok(helper)
    }

    /// Sends a command, and waits for the answer.
    ///
    /// # Errors
    /// When the process ends, or answers that the command failed.
    pub fn ask(&mut self, command: &str) -> anyhow::Result<String> {
        dialogue::ask(&mut self.child.stdin, &mut self.stdout, command)
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

    /// Sends a command that ends the process, and waits for the end.
    ///
    /// # Errors
    /// When the process has ended already.
    pub fn end(&mut self, command: &str) -> anyhow::Result<ExitStatus> {
        self.tell(command)?;
        Ok(self.child.wait()?)
    }

    /// Checks that the process is unharmed: it obeys, and exits with code 0.
    ///
    /// # Errors
    /// When it does not.
    pub fn continues(&mut self) -> anyhow::Result<()> {
        self.ask("record 2 100")?;
        ensure!(self.end("exit 0")?.success(), "it was harmed");
        Ok(())
    }

    /// The process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for JoinedHelper {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

/// Runs a command to its end, without input. Returns its output.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn run(mut command: Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8(output.stdout)?;
    ensure!(output.status.success(), "{}: {said}", output.status);
    Ok(said)
}

/// Waits until the session is connected with the process of this number.
///
/// # Errors
/// When it does not connect.
pub fn wait_until_connected(session: &Session, pid: u32) -> anyhow::Result<()> {
    let is_connected = || {
        reports_of(session, pid)
            .iter()
            .any(|report| report.state == ProcessState::Connected)
    };
    ensure!(until(is_connected), "it does not connect");
    Ok(())
}

/// Returns the session's reports on the process of this number, one for each of its lives.
pub fn reports_of(session: &Session, pid: u32) -> Vec<ProcessReport> {
    let mut reports = session.processes();
    reports.retain(|report| report.pid.get() == pid);
    reports
}

/// Returns the session's reports on all processes that have joined by themselves.
pub fn joined(session: &Session) -> Vec<ProcessReport> {
    let mut reports = session.processes();
    reports.retain(|report| report.has_joined);
    reports
}

/// Waits until `count` processes have joined, and all that have joined have ended. Returns their
/// reports.
///
/// # Errors
/// When they do not.
pub fn wait_until_ended(session: &Session, count: usize) -> anyhow::Result<Vec<ProcessReport>> {
    let have_ended = || {
        let joined = joined(session);
        let mut states = joined.iter().map(|report| &report.state);
        joined.len() == count && states.all(|state| matches!(state, ProcessState::Exited(_)))
    };
    ensure!(until(have_ended), "{:?}", joined(session));
    Ok(joined(session))
}

/// Returns whether a process has all its markers of the main thread, and no others.
///
/// # Errors
/// When a marker is not a numbered one.
pub fn has_marked(process: &Process, count: u64) -> anyhow::Result<bool> {
    let numbers = process.numbers()?;
    let main = numbers.get(&1000).map_or(&[][..], Vec::as_slice);
    Ok(numbers.len() == 1 && main.iter().copied().eq(0..count))
}

/// Checks that the profile has all data of a process that has joined and recorded `marks` markers
/// on its main thread.
///
/// # Errors
/// When it has not.
pub fn is_complete(profile: &Profile, report: &ProcessReport, marks: u64) -> anyhow::Result<()> {
    let pid = report.pid.get();
    let lives = profile.lives_of(pid);
    let [life] = lives.as_slice() else {
        bail!("{} processes have the number {pid}", lives.len());
    };
    ensure!(has_marked(life, marks)?, "{:?}", life.numbers()?);
    life.counts()?;
    let verdicts = profile.verdicts_of(pid)?;
    ensure!(verdicts == ["complete"], "{verdicts:?}");
    Ok(())
}

impl Profile {
    /// The processes of a profile that have this number: the lives of one process.
    pub fn lives_of(&self, pid: u32) -> Vec<&Process> {
        let lives = self
            .processes
            .iter()
            .filter(|process| process.pid == u64::from(pid));
        lives.collect()
    }

    /// Returns the verdicts on the lives of the process with this number, from the gathering log.
    ///
    /// # Errors
    /// When there is no log.
    pub fn verdicts_of(&self, pid: u32) -> anyhow::Result<Vec<String>> {
        let rows = self.log_rows()?.iter().filter(|row| row["pid"] == pid);
        let verdicts = rows.map(|row| row["verdict"].as_str().unwrap_or_default().to_owned());
        Ok(verdicts.collect())
    }
}
