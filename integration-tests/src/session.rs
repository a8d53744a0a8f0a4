//! A session of one test, with a temporary directory for its profiles.
//!
//! Used by most tests. A session is global to its process, so a test that starts one runs in a
//! separate process.

use std::path::PathBuf;

use anyhow::Context;
use profiler_parent::core::session::Features;
use profiler_parent::{Capture, CaptureReport, Format, Session, SessionBuilder};

use crate::patience::{LONG, until};
use crate::profile::Profile;

/// The session of a test. The session is dropped before the directory.
#[derive(Debug)]
pub struct TestSession {
    session: Option<Session>,
    directory: tempfile::TempDir,
}

/// Starts a session that `build` can change.
///
/// The session samples nothing unless `build` enables it, so its counts contain only what the test
/// records. A capture waits for each child for [`LONG`] unless `build` sets another time, so a
/// child that is slow on a loaded machine is not considered frozen.
///
/// # Errors
/// When the session cannot be started.
pub fn start(build: impl FnOnce(SessionBuilder) -> SessionBuilder) -> anyhow::Result<TestSession> {
    let builder = Session::builder().features(Features::NONE).name("parent");
    let session = build(builder.progress_timeout(LONG).overall_deadline(2 * LONG)).start()?;
    Ok(TestSession {
        session: Some(session),
        directory: tempfile::tempdir()?,
    })
}

impl TestSession {
    /// Returns a path for a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Captures in the default format, and reads the saved profile.
    ///
    /// # Errors
    /// When the capture fails, or the saved file is not a profile.
    pub fn capture(&self) -> anyhow::Result<(CaptureReport, Profile)> {
        self.capture_in(Format::default())
    }

    /// Captures in the Gecko format, in which every child writes its own part, and reads the saved
    /// profile.
    ///
    /// # Errors
    /// As [`Self::capture`].
    pub fn capture_gecko(&self) -> anyhow::Result<(CaptureReport, Profile)> {
        self.capture_in(Format::Gecko)
    }

    /// Captures in both formats, the default one first. For tests in which the children do
    /// something for a capture in the Gecko format.
    ///
    /// # Errors
    /// As [`Self::capture`].
    pub fn capture_both(&self) -> anyhow::Result<[(CaptureReport, Profile); 2]> {
        Ok([self.capture()?, self.capture_gecko()?])
    }

    fn capture_in(&self, format: Format) -> anyhow::Result<(CaptureReport, Profile)> {
        let path = self.path("profile.json");
        let report = self.session()?.capture().format(format).save(path)?;
        let profile = Profile::read(&report.path)?;
        Ok((report, profile))
    }

    /// Pauses, and waits until all children confirm it. A single call of `pause` waits only one
    /// second for them.
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

    /// Begins a capture in the Gecko format.
    ///
    /// # Errors
    /// When the session was ended.
    pub fn gecko_capture(&self) -> anyhow::Result<Capture> {
        Ok(self.session()?.capture().format(Format::Gecko))
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
