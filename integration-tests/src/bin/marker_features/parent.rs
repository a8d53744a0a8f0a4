//! Runs the session: starts the children, kills one, pauses the other, and captures.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use integration_tests::patience::until;
use profiler_files::output::ProfileFile;
use profiler_parent::core::session::Features;
use profiler_parent::{Format, ProfiledChild, Session, marker};

use crate::expect::{expectation, gecko_expectation};

/// The parent's name in the profile.
pub(crate) const PARENT: &str = "marker features";
/// The child that records everything.
pub(crate) const EVERYTHING: &str = "everything";
/// The child that is killed.
pub(crate) const VICTIM: &str = "victim";

/// A child that performs its steps in turn, each at the parent's request.
#[derive(Debug)]
struct Stepper {
    child: ProfiledChild,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Stepper {
    fn start(session: &Session, role: &str) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args([crate::ROLE, role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = session.spawn(role, command)?;
        let to = child.stdin.take().context("no input")?;
        let from = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, to, from })
    }

    /// Waits until the child reports the step.
    fn wait_for(&mut self, step: &str) -> Result<()> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        ensure!(
            line.trim_end() == step,
            "waited for {step:?}, but the child printed {line:?}"
        );
        Ok(())
    }

    fn go_on(&mut self) -> Result<()> {
        Ok(writeln!(self.to)?)
    }
}

/// Records, and saves the profile and the expectation; on request also the profile in the Gecko
/// format.
pub(crate) fn run(out: &Path, expect: &Path, gecko: Option<&Path>) -> Result<()> {
    let mut expect = ProfileFile::create(expect)?;
    let session = Session::builder()
        .features(Features::NONE)
        .name(PARENT)
        .start()?;
    let mut everything = Stepper::start(&session, EVERYTHING)?;
    let mut victim = Stepper::start(&session, VICTIM)?;
    everything.wait_for("recorded")?;
    victim.wait_for("recorded")?;
    ensure!(
        !victim.child.has_ended(),
        "the victim ended before it was killed"
    );
    victim.child.kill()?;
    victim.child.wait()?;
    marker!("killed");
    pause(&session, &mut everything)?;
    let report = session.capture().save(out)?;
    for process in &report.processes {
        println!(
            "{} ({}): {}, {} threads",
            process.name, process.pid, process.verdict, process.threads
        );
    }
    if let Some(gecko) = gecko {
        session.capture().format(Format::Gecko).save(gecko)?; // no process records in between
        let mut expect = ProfileFile::create(gecko.with_extension("expect.json"))?;
        serde_json::to_writer_pretty(&mut expect, &gecko_expectation())?;
        expect.commit()?;
    }
    drop(everything.to);
    let status = everything.child.wait()?;
    ensure!(status.success(), "the child ended with {status:?}");
    serde_json::to_writer_pretty(&mut expect, &expectation(&report))?;
    expect.commit()?;
    Ok(())
}

/// Has the child record one marker during a pause and one after it.
fn pause(session: &Session, child: &mut Stepper) -> Result<()> {
    ensure!(
        until(|| session.pause().is_complete()),
        "a child did not confirm the pause"
    );
    marker!("while paused");
    child.go_on()?;
    child.wait_for("paused")?;
    ensure!(
        until(|| session.resume().is_complete()),
        "a child did not confirm the end of the pause"
    );
    child.go_on()?;
    child.wait_for("resumed")
}
