//! The thread that looks for signs and writes the profiles.
//!
//! Invariants: a panic of the application's code costs one capture; a sign that comes while a
//! profile is written is looked at afterwards; no capture begins after the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, select};

use super::CaptureCounts;
use super::cause::{CaptureCause, CaptureNotice};
use super::policy::CapturePolicy;
use super::trigger::Watches;
use super::watch::Signs;
use crate::alerts::slow_runs;
use crate::capture::{Capture, CaptureError, CaptureReport, CaptureSources};
use crate::kept_files::KeptFiles;
use crate::session_time::SessionNs;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// What the application can ask.
#[derive(Debug, Default)]
pub(super) struct SharedState(Mutex<Progress>);

#[derive(Debug, Default)]
struct Progress {
    counts: CaptureCounts,
    last_error: Option<Arc<CaptureError>>,
    files: Vec<PathBuf>,
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts signs without a capture.
    pub(super) fn skip(&self, signs: u64) {
        let skipped = &mut self.lock().counts.skipped;
        *skipped = skipped.saturating_add(signs);
    }

    pub(super) fn counts(&self) -> CaptureCounts {
        self.lock().counts
    }

    pub(super) fn last_error(&self) -> Option<Arc<CaptureError>> {
        self.lock().last_error.clone()
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.lock().files.clone()
    }
}

/// The state of the thread.
pub(super) struct Worker {
    captures: Arc<CaptureSources>,
    policy: CapturePolicy,
    files: KeptFiles,
    watches: Watches,
    state: Arc<SharedState>,
    /// When the latest capture began.
    latest: Option<SessionNs>,
}

impl Worker {
    pub(super) const fn new(
        captures: Arc<CaptureSources>,
        policy: CapturePolicy,
        files: KeptFiles,
        watches: Watches,
        state: Arc<SharedState>,
    ) -> Self {
        Self {
            captures,
            policy,
            files,
            watches,
            state,
            latest: None,
        }
    }

    /// Looks for signs until the application or the session ends that.
    pub(super) fn run(mut self, stopped: &Receiver<()>) {
        let over = self.captures.session_end.clone();
        let alerts = self.watches.alerts.clone();
        loop {
            let mut signs = Signs::default();
            select! {
                recv(stopped) -> _ => return,
                recv(over) -> _ => return,
                recv(alerts) -> alert => {
                    alert.into_iter().for_each(|alert| signs.add(1, || CaptureCause::Alert(alert)));
                }
                default(PAUSE) => self.look(&mut signs),
            }
            self.act(signs);
        }
    }

    fn look(&mut self, signs: &mut Signs) {
        for watch in &mut self.watches.looked_at {
            watch.look(&self.captures.processes, self.captures.time, signs);
        }
    }

    /// Captures a profile for the first of these signs, if the latest capture is long enough ago.
    fn act(&mut self, signs: Signs) {
        let Some(cause) = signs.first else { return };
        let now = self.captures.time.now();
        if self.is_too_soon(now) {
            return self.state.skip(signs.count);
        }
        self.state.skip(signs.count.saturating_sub(1));
        self.latest = Some(now);
        let outcome = self.capture(&cause, now);
        self.note(&outcome);
        self.tell(CaptureNotice { cause, outcome });
    }

    fn is_too_soon(&self, now: SessionNs) -> bool {
        let apart = i64::try_from(self.policy.apart().as_nanos()).unwrap_or(i64::MAX);
        self.latest
            .is_some_and(|latest| now.0.saturating_sub(latest.0) < apart)
    }

    /// Writes a profile.
    fn capture(
        &self,
        cause: &CaptureCause,
        now: SessionNs,
    ) -> Result<CaptureReport, Arc<CaptureError>> {
        let path = self
            .files
            .new_path(self.captures.time.date_of(now), cause.word());
        let write = || {
            let capture = Capture::new(Arc::clone(&self.captures));
            let (capture, at_least) = match cause {
                CaptureCause::Alert(alert) => (
                    capture.slow_runs(alert.id.pool, slow_runs(alert)),
                    between(alert.from, now),
                ),
                _ => (capture, Duration::ZERO),
            };
            self.policy.prepare(capture, at_least).save(path)
        };
        let written = catch_unwind(AssertUnwindSafe(write));
        let written = written.unwrap_or(Err(CaptureError::Panicked));
        written.map_err(Arc::new)
    }

    fn note(&mut self, outcome: &Result<CaptureReport, Arc<CaptureError>>) {
        match outcome {
            Ok(report) => {
                self.files.keep(report.path.clone());
                let mut state = self.state.lock();
                state.counts.written += 1;
                state.files = self.files.paths();
            }
            Err(error) => {
                let mut state = self.state.lock();
                state.counts.failed += 1;
                state.last_error = Some(Arc::clone(error));
            }
        }
    }

    /// Tells the application of a capture.
    fn tell(&self, notice: CaptureNotice) {
        if let Some(listener) = self.policy.listener() {
            let _ = catch_unwind(AssertUnwindSafe(|| listener(&notice)));
        }
    }
}

fn between(from: SessionNs, to: SessionNs) -> Duration {
    let ns = to.0.saturating_sub(from.0);
    Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
}
