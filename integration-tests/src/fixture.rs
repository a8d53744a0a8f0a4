//! The scene of a fault: a session whose parent records, one healthy child, and whoever is to go wrong.
//!
//! Used by the tests `faults_*`. [`Fixture::capture`] is the point: however the others behave, the parent
//! and the healthy child record on, all their entries are there, in order and once, and the
//! books of every process hold.

use std::ops::Deref;

use anyhow::ensure;
use profiler_parent::{CaptureReport, ProcessReport, ProcessState, SessionBuilder};

use crate::helper_process::HelperProcess;
use crate::marks;
use crate::patience;
use crate::profile::{Books, Process, Profile};
use crate::session::{self, TestSession};

/// Markers that the parent and the healthy child record before each capture.
const SHARE: u64 = 100;
/// The parent's own number as a recording thread.
const PARENT: u32 = 7000;

/// See the head of this file.
#[derive(Debug)]
pub struct Fixture {
    program: String,
    healthy: HelperProcess,
    captures: u64,
    session: TestSession,
}

impl Fixture {
    /// A session with the healthy child, run by the helper `program`.
    ///
    /// # Errors
    /// When the session or the child cannot be started.
    pub fn set(program: &str, build: impl FnOnce(SessionBuilder) -> SessionBuilder) -> anyhow::Result<Self> {
        let session = session::start(build)?;
        let healthy = HelperProcess::spawn(&session, program, "healthy", "init")?;
        Ok(Self { program: program.to_owned(), healthy, captures: 0, session })
    }

    /// Another child that has begun in some way.
    ///
    /// # Errors
    /// As [`HelperProcess::spawn`].
    pub fn child(&self, name: &str, beginning: &str) -> anyhow::Result<HelperProcess> {
        HelperProcess::spawn(&self.session, &self.program, name, beginning)
    }

    /// Records more in parent and healthy child, captures, and checks that these two and all
    /// books are as they should be.
    ///
    /// # Errors
    /// When anything is missing, doubled or out of order.
    pub fn capture(&mut self) -> anyhow::Result<(CaptureReport, Profile)> {
        self.record_share()?;
        let (report, profile) = self.session.capture()?;
        for process in &profile.processes {
            process.books()?;
        }
        self.check_unharmed(&profile)?;
        Ok((report, profile))
    }

    /// The same where a process lies in its own pool, so that its part may be anything: only the
    /// healthy ones are looked at.
    ///
    /// # Errors
    /// When the profile is not JSON, or the healthy ones were harmed.
    pub fn capture_among_liars(&mut self) -> anyhow::Result<(CaptureReport, Profile)> {
        self.record_share()?;
        let report = self
            .session
            .session()?
            .capture()
            .format(profiler_parent::Format::Gecko)
            .save(self.session.path("liars.json"))?;
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
        for (process, thread) in [(profile.parent(), PARENT), (profile.process("healthy")?, 1000)] {
            let (numbers, books) = (process.numbers()?, process.books()?);
            let there = numbers.get(&thread).is_some_and(|numbers| numbers.iter().copied().eq(0..all));
            ensure!(there, "{} was harmed: {numbers:?}, {books:?}", process.name);
        }
        profile.is_complete("healthy")
    }

    /// What the session knows of the process with this name.
    ///
    /// # Panics
    /// When there is none.
    pub fn report_of(&self, name: &str) -> ProcessReport {
        let found = self.session.processes().into_iter().find(|process| process.name == name);
        found.expect("a process of that name")
    }

    /// Waits until the session has seen the end of the process with this name.
    pub fn has_ended(&self, name: &str) -> bool {
        patience::until(|| matches!(self.report_of(name).state, ProcessState::Exited(_)))
    }

    /// Ends the healthy child and then the session; the first must end in order.
    ///
    /// # Errors
    /// When the child does not end as it should.
    pub fn end(mut self) -> anyhow::Result<()> {
        ensure!(self.healthy.end("exit 0")?.success(), "the healthy child was harmed");
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
    /// The books of the thread with this name.
    ///
    /// # Panics
    /// When there is none, or none with books.
    pub fn books_of(&self, thread: &str) -> &Books {
        let found = self.threads.iter().find(|row| row.name == thread);
        found.and_then(|row| row.books.as_ref()).expect("books of the thread")
    }
}
