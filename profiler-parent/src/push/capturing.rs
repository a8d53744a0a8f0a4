//! The thread that captures a batch in every period.
//!
//! Started by the pusher. Each batch has what was recorded since the previous one
//! ([`CaptureSeries`]). If a capture fails, for example because the disk is full, the next one has
//! its entries, as long as their processes keep them. Invariant: the thread holds no lock while it
//! captures, and waits for no sender.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, select};

use super::report::PushReport;
use super::spool::Spool;
use crate::capture::series::CaptureSeries;
use crate::capture::{Capture, CaptureSources};

/// Captures batches into a spool.
pub(super) struct Capturer {
    pub(super) captures: Arc<CaptureSources>,
    pub(super) spool: Arc<Spool>,
    pub(super) period: Duration,
    pub(super) report: Arc<Mutex<PushReport>>,
    pub(super) series: Arc<Mutex<CaptureSeries>>,
}

impl Capturer {
    /// Captures in every period. Returns when the session ends. When `stopped` is disconnected,
    /// captures once more and returns.
    pub(super) fn run(&self, stopped: &Receiver<()>, session_end: &Receiver<()>) {
        loop {
            select! {
                recv(stopped) -> _ => return self.capture(),
                recv(session_end) -> _ => return,
                default(self.period) => self.capture(),
            }
        }
    }

    fn capture(&self) {
        let before = self.series_state();
        let Some(path) = self.spool.unfinished_path() else {
            return;
        };
        let capture = Capture::new(Arc::clone(&self.captures)).in_series(&self.series);
        let saved = capture.save(&path).map_err(|error| error.to_string());
        let (written, ends) = self.series_state();
        let entries = written.saturating_sub(before.0);
        let is_empty = entries == 0 && ends == before.1;
        let added = match saved {
            Ok(_) if is_empty => fs::remove_file(&path).map_err(|error| error.to_string()),
            Ok(_) => self.spool.add(entries).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        let missed = self.series(CaptureSeries::missed);
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.captured_entries = written;
        report.missed_entries = missed;
        if let Err(error) = added {
            report.failed_captures = report.failed_captures.saturating_add(1);
            report.capture_error = Some(error);
        }
    }

    /// The entries in the series, and the number of processes whose ends it has.
    fn series_state(&self) -> (u64, u64) {
        self.series(|series| (series.written(), series.ends()))
    }

    fn series<T>(&self, read: impl FnOnce(&CaptureSeries) -> T) -> T {
        read(&self.series.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
