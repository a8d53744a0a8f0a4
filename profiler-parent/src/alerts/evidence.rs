//! The evidence of an alert: a profile of the alert's time span, in a file that opens in the
//! viewer. A marker with the group's name shows each slow run.
//!
//! Written by the dispatcher. Invariants: the number of files is bounded, and the oldest is removed
//! first; no file replaces another; only the worst alerts of a collection get a file, because
//! writing one reads the pools of all processes.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use profiler_core::time::UnixNs;
use profiler_gecko::model::SlowRunMarker;

use super::{Alert, AlertsError, SlowRun};
use crate::capture::{Capture, CaptureSources};
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

/// The files written so far.
#[derive(Debug)]
pub(super) struct Evidence {
    options: EvidenceOptions,
    written: VecDeque<PathBuf>,
}

/// The number of the next evidence file: unique for all alerts of this process.
static NUMBER: AtomicU64 = AtomicU64::new(1);

impl Evidence {
    /// Creates the directory, if evidence is kept.
    pub(super) fn new(options: EvidenceOptions) -> Result<Self, AlertsError> {
        if let Some(directory) = &options.directory {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|source| AlertsError::Evidence {
                    directory: directory.clone(),
                    source,
                })?;
        }
        Ok(Self {
            options,
            written: VecDeque::new(),
        })
    }

    /// Writes the evidence of the worst alerts, which come first in `alerts`. Writes no further
    /// file once `is_over` returns true.
    pub(super) fn attach(
        &mut self,
        alerts: &mut [Alert],
        captures: &Arc<CaptureSources>,
        is_over: impl Fn() -> bool,
    ) {
        let Some(directory) = self.options.directory.clone() else {
            return;
        };
        for alert in alerts
            .iter_mut()
            .take(self.options.at_once)
            .take_while(|_| !is_over())
        {
            let path = directory.join(file_name(alert, captures.time.clock().start_unix));
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
                    self.written.push_back(report.path);
                }
                Err(error) => alert.evidence_error = Some(error.to_string()),
            }
        }
        while self.written.len() > self.options.kept.max(self.options.at_once) {
            let _ = self.written.pop_front().map(fs::remove_file);
        }
    }
}

/// The markers of an alert's slow runs.
fn slow_runs(alert: &Alert) -> Vec<SlowRunMarker> {
    let marker = |run: &SlowRun| SlowRunMarker {
        group: alert.group.clone(),
        kind: alert.kind.clone(),
        thread: run.thread.clone(),
        from_ns: run.from.0,
        to_ns: run.to.0,
    };
    alert.slow_runs.iter().map(marker).collect()
}

/// Returns a unique name for an alert's file: the alert's time in milliseconds since the Unix
/// epoch, so that files sort by time, then the process id, a number, and the group.
fn file_name(alert: &Alert, start: UnixNs) -> String {
    let date = start.0.saturating_add_signed(alert.to.0) / 1_000_000;
    let pid = std::process::id();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!(
        "alert-{date}-{pid}-{number:04}-{}.json.gz",
        plain(&alert.group)
    )
}

/// Replaces the characters of a group's name that a file name may not contain.
fn plain(name: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    };
    name.chars().take(40).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a5_file_names_are_unique_even_for_equal_alerts() {
        let name = || {
            file_name(
                &Alert::test("plugin", "a/b"),
                UnixNs(1_700_000_000_123_000_000),
            )
        };
        let first = name();
        let second = name();
        assert_ne!(first, second);
        assert!(
            first.starts_with("alert-1700000000123-") && first.ends_with("-a-b.json.gz"),
            "{first}"
        );
        assert!(first.contains(&std::process::id().to_string()), "{first}");
    }
}
