//! A session of one test, with a directory for its profiles.
//!
//! Sessions are global to a process, so a test that starts one runs in a process of its own.

use std::path::PathBuf;

use anyhow::Context;
use profiler_parent::core::session::Features;
use profiler_parent::{CaptureReport, Session, SessionBuilder};

use crate::patience::{LONG, until};
use crate::profile::Profile;

/// The session of a test. Fields are dropped in this order.
#[derive(Debug)]
pub struct TestSession {
    session: Option<Session>,
    directory: tempfile::TempDir,
}

/// Starts a session built by `build`. Nothing is sampled unless `build` says so: what is in its books is then what
/// the test recorded. A capture waits for every child for [`LONG`], unless `build` sets another
/// time: a child that is slow on a loaded machine is not frozen.
///
/// # Errors
/// What the session says.
pub fn start(build: impl FnOnce(SessionBuilder) -> SessionBuilder) -> anyhow::Result<TestSession> {
    let builder = Session::builder().features(Features::NONE).name("parent");
    let session = build(builder.progress_timeout(LONG).overall_deadline(2 * LONG)).start()?;
    Ok(TestSession { session: Some(session), directory: tempfile::tempdir()? })
}

impl TestSession {
    /// A path for a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Captures, and reads what was saved.
    ///
    /// # Errors
    /// When the capture fails, or what it saved is no profile.
    pub fn capture(&self) -> anyhow::Result<(CaptureReport, Profile)> {
        let report = self
            .session()?
            .capture()
            .format(profiler_parent::Format::Gecko)
            .save(self.path("profile.json"))?;
        let profile = Profile::read(&report.path)?;
        Ok((report, profile))
    }

    /// Pauses, and waits until all children confirm it. A single call waits only a second for them.
    pub fn all_pause(&self) -> bool {
        until(|| self.pause().is_complete())
    }

    /// Resumes, and waits until all children confirm it.
    pub fn all_resume(&self) -> bool {
        until(|| self.resume().is_complete())
    }

    /// The session.
    ///
    /// # Errors
    /// When it was ended.
    pub fn session(&self) -> anyhow::Result<&Session> {
        self.session.as_ref().context("the session was ended")
    }

    /// Ends the session.
    pub fn end(&mut self) {
        self.session = None;
    }
}

impl std::ops::Deref for TestSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        self.session.as_ref().expect("the session was ended")
    }
}
