//! The thread that captures a batch in every period.
//!
//! Started by the pusher. Each batch has what was recorded since the previous one
//! ([`CaptureSeries`]). If a capture fails, for example because the disk is full, the next one has
//! its entries, as long as their processes keep them. Invariant: the thread holds no lock while it
//! captures, and waits for no sender.

use std::cell::Cell;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, select};

use super::report::PushReport;
use super::spool::Spool;
use crate::capture::series::{CaptureSeries, SeriesContents};
use crate::capture::{Capture, CaptureSources};

/// Captures batches into a spool.
pub(super) struct Capturer {
    pub(super) captures: Arc<CaptureSources>,
    pub(super) spool: Arc<Spool>,
    pub(super) period: Duration,
    pub(super) report: Arc<Mutex<PushReport>>,
    pub(super) series: Arc<Mutex<CaptureSeries>>,
    /// What the series contains of earlier pushers.
    pub(super) earlier: SeriesContents,
    /// The entries that were captured, but of which the batch could not be put into the spool.
    pub(super) not_spooled: Cell<u64>,
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
        let before = self.series(CaptureSeries::contents);
        let Some(path) = self.spool.unfinished_path() else {
            return;
        };
        let capture = Capture::new(Arc::clone(&self.captures)).in_series(&self.series);
        let saved = capture.save(&path).map_err(|error| error.to_string());
        let contents = self.series(CaptureSeries::contents);
        let SeriesContents {
            entries: captured,
            missed,
            ..
        } = contents;
        let entries = captured.saturating_sub(before.entries);
        let is_empty = contents == before;
        let added = match saved {
            Ok(_) if is_empty => fs::remove_file(&path).map_err(|error| error.to_string()),
            Ok(_) => self.add(entries).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        let not_spooled = self.not_spooled.get();
        let captured = captured.saturating_sub(self.earlier.entries);
        let missed = missed.saturating_sub(self.earlier.missed);
        report.captured_entries = captured.saturating_sub(not_spooled);
        report.missed_entries = missed.saturating_add(not_spooled);
        if let Err(error) = added {
            report.failed_captures = report.failed_captures.saturating_add(1);
            report.capture_error = Some(error);
        }
    }

    /// Puts a batch into the spool. If that fails, the series does not capture its entries again.
    fn add(&self, entries: u64) -> std::io::Result<()> {
        let added = self.spool.add(entries);
        if added.is_err() {
            let not_spooled = self.not_spooled.get();
            self.not_spooled.set(not_spooled.saturating_add(entries));
        }
        added
    }

    fn series<T>(&self, read: impl FnOnce(&CaptureSeries) -> T) -> T {
        read(&self.series.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::counter::Counter;
    use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
    use profiler_core::session::Features;
    use test_support::own_process;

    use std::path::Path;

    use super::super::PushIdentity;
    use super::*;
    use crate::session::Session;

    fn mark(name: &str) {
        add_untyped_marker(name, &category::TEST, MarkerOptions::default());
    }

    fn capturer(session: &Session, directory: &Path) -> Capturer {
        let spool = Spool::open(directory, u64::MAX, &[], &PushIdentity::default());
        Capturer {
            captures: session.push_sources().captures,
            spool: Arc::new(spool.unwrap()),
            period: Duration::from_secs(1),
            report: Arc::default(),
            series: Arc::default(),
            earlier: SeriesContents::default(),
            not_spooled: Cell::default(),
        }
    }

    /// The number of batches in the spool.
    fn batches(capturer: &Capturer) -> usize {
        let unfinished = capturer.spool.unfinished_path().unwrap();
        let files = fs::read_dir(unfinished.parent().unwrap()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.ends_with(".json.gz") && name.starts_with("00"))
            .count()
    }

    #[test]
    fn a_period_has_a_batch_if_anything_changed_and_none_otherwise() {
        own_process!();
        let session = Session::builder().features(Features::NONE).start().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let capturer = capturer(&session, directory.path());
        mark("first");
        capturer.capture();
        assert_eq!(batches(&capturer), 1);
        capturer.capture();
        assert_eq!(batches(&capturer), 1, "nothing has changed");
        static REQUESTS: Counter = Counter::new("requests", "Test", "");
        REQUESTS.add(1);
        capturer.capture();
        assert_eq!(batches(&capturer), 2, "a counter has changed");
        capturer.capture();
        assert_eq!(batches(&capturer), 2, "nothing has changed");
    }

    #[test]
    fn entries_of_a_batch_that_cannot_be_put_into_the_spool_are_missed() {
        own_process!();
        let session = Session::builder().start().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let capturer = capturer(&session, directory.path());
        mark("lost");
        // Directories under all names that the batch may get.
        let unfinished = capturer.spool.unfinished_path().unwrap();
        let home = unfinished.parent().unwrap();
        let name = |entries| home.join(format!("{:010}-{entries}.json.gz", 0));
        for entries in 0..5000 {
            fs::create_dir(name(entries)).unwrap();
        }
        capturer.capture();
        let report = capturer.report.lock().unwrap().clone();
        assert_eq!((report.captured_entries, report.failed_captures), (0, 1));
        assert!(report.missed_entries > 0, "{report:?}");
        mark("kept");
        capturer.capture();
        let next = capturer.report.lock().unwrap().clone();
        assert_eq!(next.failed_captures, 1, "{next:?}");
        assert_eq!(next.missed_entries, report.missed_entries);
        assert!(next.captured_entries > 0);
        drop(session);
    }
}
