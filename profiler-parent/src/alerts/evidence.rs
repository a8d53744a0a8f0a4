//! The evidence of an alert: a profile of exactly its time, in a file that opens in the viewer.
//!
//! Invariants: at most so many files are kept, the oldest goes first; only the worst of a collection get one, because
//! writing one reads the pools of all processes.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Alert;
use crate::capture::Capture;
use crate::hub::{HubHandle, Shared};
use crate::observe::SessionNs;

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
        Self { directory: None, at_once: 1, kept: 16, margin: Duration::from_millis(1) }
    }
}

impl EvidenceOptions {
    /// No evidence.
    pub fn none() -> Self {
        Self::default()
    }

    /// Profiles in this directory, which is there; the latest 16, one for the worst alert of each collection.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()), ..Self::default() }
    }

    /// For so many of the worst alerts of each collection.
    pub const fn at_once(mut self, alerts: usize) -> Self {
        self.at_once = alerts;
        self
    }

    /// Keeps the latest so many.
    pub const fn kept(mut self, files: usize) -> Self {
        self.kept = files;
        self
    }

    /// With so much time before and after. Default: 1 ms, because runs are not known more exactly than to 16 µs, and by
    /// the clock of their process.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }
}

/// The files that were written.
#[derive(Debug)]
pub(super) struct Evidence {
    options: EvidenceOptions,
    written: VecDeque<PathBuf>,
    count: u64,
}

impl Evidence {
    pub(super) const fn new(options: EvidenceOptions) -> Self {
        Self { options, written: VecDeque::new(), count: 0 }
    }

    /// Writes the evidence of the worst of these, which come first.
    pub(super) fn attach(&mut self, alerts: &mut [Alert], shared: &Arc<Shared>, hub: &HubHandle) {
        let Some(directory) = self.options.directory.clone() else { return };
        for alert in alerts.iter_mut().take(self.options.at_once) {
            self.count += 1;
            let path = directory.join(format!("alert-{:04}-{}.json.gz", self.count, plain(&alert.group)));
            let margin = i64::try_from(self.options.margin.as_nanos()).unwrap_or(i64::MAX);
            let (from, to) = (alert.from.0.saturating_sub(margin), alert.to.0.saturating_add(margin));
            let capture = Capture::new(Arc::clone(shared), hub.clone());
            match capture.range(SessionNs(from), SessionNs(to)).save(&path) {
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

/// A group's name as part of a file's name.
fn plain(name: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    name.chars().take(40).map(letter).collect()
}
