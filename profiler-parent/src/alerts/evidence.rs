//! The evidence of an alert: a profile of the alert's time span, in a file that opens in the
//! viewer. A marker with the group's name shows each slow run.
//!
//! Written by the dispatcher. Invariants: the number of files is bounded, and the oldest is removed
//! first; no file replaces another; only the worst alerts of a collection get a file, because
//! writing one reads the pools of all processes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use profiler_gecko::model::SlowRunMarker;

use super::{Alert, AlertsError, SlowRun};
use crate::capture::{Capture, CaptureSources};
use crate::kept_files::KeptFiles;
use crate::session_time::SessionNs;

/// Whether evidence is kept, where, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until they are given to Session::alerts"]
pub struct EvidenceOptions {
    directory: Option<PathBuf>,
    at_once: usize,
    kept: usize,
    margin: Duration,
}

impl Default for EvidenceOptions {
    fn default() -> Self {
        Self {
            directory: None,
            at_once: 1,
            kept: 16,
            margin: Duration::from_millis(1),
        }
    }
}

impl EvidenceOptions {
    /// No evidence.
    pub fn none() -> Self {
        Self::default()
    }

    /// Writes profiles to this directory. Creates it, for this user alone, if it does not exist.
    /// Keeps the latest 16 files of these alerts; writes one for the worst alert of each
    /// collection. Does not touch files of other alerts.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: Some(directory.into()),
            ..Self::default()
        }
    }

    /// Writes a file for this many of the worst alerts of each collection.
    pub const fn at_once(mut self, alerts: usize) -> Self {
        self.at_once = alerts;
        self
    }

    /// Keeps this many of the latest files.
    pub const fn kept(mut self, files: usize) -> Self {
        self.kept = files;
        self
    }

    /// Adds this time before and after the alert. Default: 1 ms, because the times of runs are
    /// exact only to 16 µs and are taken on the clock of their process.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }
}

/// Writes evidence.
#[derive(Debug)]
pub(super) struct Evidence {
    options: EvidenceOptions,
    /// `None`: no evidence is kept.
    files: Option<KeptFiles>,
}

impl Evidence {
    /// # Errors
    /// If the directory cannot be created.
    pub(super) fn new(options: EvidenceOptions) -> Result<Self, AlertsError> {
        let most = options.kept.max(options.at_once);
        let files = options.directory.as_ref().map(|directory| {
            KeptFiles::in_directory(directory, "alert", most).map_err(|source| {
                AlertsError::Evidence {
                    directory: directory.clone(),
                    source,
                }
            })
        });
        let files = files.transpose()?;
        Ok(Self { options, files })
    }

    /// Writes the evidence of the worst alerts, which come first in `alerts`. Writes no further
    /// file once `is_over` returns true.
    pub(super) fn attach(
        &mut self,
        alerts: &mut [Alert],
        captures: &Arc<CaptureSources>,
        is_over: impl Fn() -> bool,
    ) {
        let Some(files) = &mut self.files else {
            return;
        };
        for alert in alerts
            .iter_mut()
            .take(self.options.at_once)
            .take_while(|_| !is_over())
        {
            let path = files.new_path(captures.time.date_of(alert.to), &alert.group);
            let margin = i64::try_from(self.options.margin.as_nanos()).unwrap_or(i64::MAX);
            let from = alert.from.0.saturating_sub(margin);
            let to = alert.to.0.saturating_add(margin);
            let capture = Capture::new(Arc::clone(captures));
            let capture = capture
                .range(SessionNs(from), SessionNs(to))
                .slow_runs(alert.id.pool, slow_runs(alert));
            match capture.save(&path) {
                Ok(report) => {
                    alert.evidence = Some(report.path.clone());
                    files.keep(report.path);
                }
                Err(error) => alert.evidence_error = Some(error.to_string()),
            }
        }
    }
}

/// The markers of an alert's slow runs.
pub(crate) fn slow_runs(alert: &Alert) -> Vec<SlowRunMarker> {
    let marker = |run: &SlowRun| SlowRunMarker {
        group: alert.group.clone(),
        kind: alert.kind.clone(),
        thread: run.thread.clone(),
        from_ns: run.from.0,
        to_ns: run.to.0,
    };
    alert.slow_runs.iter().map(marker).collect()
}
