//! The scene of the fault tests: a session whose parent records, one healthy child, and the
//! children that fail.
//!
//! Used by the tests `faults_*`, among others. [`Fixture::capture`] checks the rule: regardless of
//! the other children, the parent and the healthy child continue to record, all their entries are
//! in the profile once and in order, and the counts of every process add up.

use std::ops::Deref;

use anyhow::ensure;
use profiler_parent::{CaptureReport, Format, ProcessReport, ProcessState, SessionBuilder};

use crate::helper_process::HelperProcess;
use crate::marks;
use crate::patience;
use crate::profile::{LoggedCounts, Process, Profile};
use crate::reports;
use crate::session::{self, TestSession};

/// Markers that the parent and the healthy child each record before a capture.
const SHARE: u64 = 100;
/// The thread number in the parent's markers.
const PARENT: u32 = 7000;

/// A session with a healthy child. The head of this file describes it.
#[derive(Debug)]
pub struct Fixture {
    program: String,
    healthy: HelperProcess,
    captures: u64,
    session: TestSession,
}

impl Fixture {
    /// Starts a session and its healthy child, which runs the helper `program`. `build` can change
    /// the session.
    ///
    /// # Errors
    /// When the session or the child cannot be started.
    pub fn set(
        program: &str,
        build: impl FnOnce(SessionBuilder) -> SessionBuilder,
    ) -> anyhow::Result<Self> {
        let session = session::start(build)?;
        let healthy = HelperProcess::spawn(&session, program, "healthy", "init")?;
        Ok(Self {
            program: program.to_owned(),
            healthy,
            captures: 0,
            session,
        })
    }

    /// Starts another child. `beginning` selects how it begins.
    ///
    /// # Errors
    /// As [`HelperProcess::spawn`].
    pub fn child(&self, name: &str, beginning: &str) -> anyhow::Result<HelperProcess> {
        HelperProcess::spawn(&self.session, &self.program, name, beginning)
    }

    /// Records in the parent and in the healthy child, captures, and checks the markers of both and
    /// the counts of every process.
    ///
    /// # Errors
    /// When anything is missing, doubled or out of order.
    pub fn capture(&mut self) -> anyhow::Result<(CaptureReport, Profile)> {
        self.record_share()?;
        self.checked(self.session.capture()?)
    }

    /// Like [`Self::capture`], in the Gecko format, in which every child writes its own part.
    ///
    /// # Errors
    /// As [`Self::capture`].
    pub fn capture_gecko(&mut self) -> anyhow::Result<(CaptureReport, Profile)> {
        self.record_share()?;
        self.checked(self.session.capture_gecko()?)
    }

    /// Captures in both formats, the default one first. For tests in which the children do
    /// something for a capture in the Gecko format.
    ///
    /// # Errors
    /// As [`Self::capture`].
    pub fn capture_both(&mut self) -> anyhow::Result<[(CaptureReport, Profile); 2]> {
        Ok([self.capture()?, self.capture_gecko()?])
    }

    fn checked(
        &self,
        (report, profile): (CaptureReport, Profile),
    ) -> anyhow::Result<(CaptureReport, Profile)> {
        for process in &profile.processes {
            process.counts()?;
        }
        self.check_unharmed(&profile)?;
        Ok((report, profile))
    }

    /// Like [`Self::capture_both`], for a session in which a process overwrites its own pool, so
    /// that its part can be anything. Checks only the parent and the healthy child.
    ///
    /// # Errors
    /// When a profile is not JSON, or the markers of the two are not as recorded.
    pub fn capture_among_liars(&mut self) -> anyhow::Result<[(CaptureReport, Profile); 2]> {
        let processed = self.capture_among_liars_in(Format::Processed)?;
        Ok([processed, self.capture_among_liars_in(Format::Gecko)?])
    }

    fn capture_among_liars_in(
        &mut self,
        format: Format,
    ) -> anyhow::Result<(CaptureReport, Profile)> {
        self.record_share()?;
        let capture = self.session.session()?.capture().format(format);
        let report = capture.save(self.session.path("liars.json"))?;
        let profile = Profile::read_some(&report.path, &["healthy"])?;
        self.check_unharmed(&profile)?;
        Ok((report, profile))
    }

    fn record_share(&mut self) -> anyhow::Result<()> {
        let first = self.captures * SHARE;
        (first..first + SHARE).for_each(|sequence| marks::record(PARENT, sequence));
        self.healthy.ask(&format!("mark {SHARE}"))?;
        self.captures += 1;
        Ok(())
    }

    fn check_unharmed(&self, profile: &Profile) -> anyhow::Result<()> {
        let all = self.captures * SHARE;
        for (process, thread) in [
            (profile.parent(), PARENT),
            (profile.process("healthy")?, 1000),
        ] {
            let numbers = process.numbers()?;
            let counts = process.counts()?;
            let is_whole = numbers
                .get(&thread)
                .is_some_and(|numbers| numbers.iter().copied().eq(0..all));
            ensure!(
                is_whole,
                "{} was harmed: {numbers:?}, {counts:?}",
                process.name
            );
        }
        profile.is_complete("healthy")
    }

    /// Returns the report of the session on the process with this name.
    ///
    /// # Panics
    /// When there is none.
    pub fn report_of(&self, name: &str) -> ProcessReport {
        reports::report_of(&self.session, name)
    }

    /// Waits until the session has noticed the end of the process with this name. Returns `false`
    /// if it does not.
    pub fn has_ended(&self, name: &str) -> bool {
        patience::until(|| matches!(self.report_of(name).state, ProcessState::Exited(_)))
    }

    /// Ends the healthy child, which must exit with code 0, and then the session.
    ///
    /// # Errors
    /// When the child exits with another status.
    pub fn end(mut self) -> anyhow::Result<()> {
        ensure!(
            self.healthy.end("exit 0")?.success(),
            "the healthy child was harmed"
        );
        self.session.end();
        Ok(())
    }
}

impl Deref for Fixture {
    type Target = TestSession;

    fn deref(&self) -> &TestSession {
        &self.session
    }
}

impl Process {
    /// Returns the counts of the thread with this name.
    ///
    /// # Panics
    /// When there is no such thread, or it has no counts.
    pub fn counts_of(&self, thread: &str) -> &LoggedCounts {
        let found = self.threads.iter().find(|row| row.name == thread);
        found
            .and_then(|row| row.counts.as_ref())
            .expect("counts of the thread")
    }
}
