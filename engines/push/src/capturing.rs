//! The thread that captures a batch in every period.
//!
//! Started by the pusher. Each batch has what was recorded since the previous one
//! ([`CaptureSeries`]). If a capture fails, for example because the disk is full, the next one has
//! its entries, as long as their processes keep them. Invariant: the thread holds no lock while it
//! captures, and waits for no sender.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, select};

use super::destination_series::PushedAddresses;
use super::report::PushReport;
use super::spool::Spool;
use profiler_parent::internal::pushers::{CaptureSeries, EngineSources, SeriesContents};

/// Captures batches into a spool.
pub(super) struct Capturer {
    pub(super) sources: EngineSources,
    pub(super) spool: Arc<Spool>,
    pub(super) period: Duration,
    pub(super) report: Arc<Mutex<PushReport>>,
    pub(super) series: Arc<Mutex<CaptureSeries>>,
    /// What the series contains of earlier pushers.
    pub(super) earlier: SeriesContents,
    /// What has the series once a batch is in the spool.
    pub(super) addresses: Arc<PushedAddresses>,
}

impl Capturer {
    /// Captures in every period. Returns when the session ends. When `stopped` is disconnected,
    /// captures once more and returns; if the spool has been stopped, too, returns at once.
    pub(super) fn run(&self, stopped: &Receiver<()>, session_end: &Receiver<()>) {
        loop {
            select! {
                recv(stopped) -> _ => {
                    self.capture();
                    return;
                }
                recv(session_end) -> _ => return,
                default(self.period) => self.capture(),
            }
        }
    }

    fn capture(&self) {
        if self.spool.is_stopped() {
            return;
        }
        let before = self.series(|series| series.clone());
        let path = self.spool.unfinished_path();
        let added = path.map_err(|error| error.to_string()).and_then(|path| {
            let capture = self.sources.capture().in_series(&self.series);
            capture.save(&path).map_err(|error| error.to_string())?;
            self.add(&before, &path).map_err(|error| {
                // The next batch has the entries of this one.
                self.series(|series| *series = before);
                error.to_string()
            })
        });
        self.report(added);
    }

    /// Puts the batch into the spool, unless the series contained everything `before`. The series
    /// then stays as it was: what the batch has of open waits is in the next one.
    fn add(&self, before: &CaptureSeries, path: &Path) -> io::Result<()> {
        let series = self.series(|series| series.clone());
        let contents = series.contents();
        if contents == before.contents() {
            self.series(|series| series.clone_from(before));
            return fs::remove_file(path);
        }
        let before = before.contents();
        let entries = contents.entries.saturating_sub(before.entries);
        let add = || self.spool.add(entries);
        self.addresses.publish(&series, add)
    }

    fn report(&self, added: Result<(), String>) {
        let contents = self.series(|series| series.contents());
        let SeriesContents {
            entries, missed, ..
        } = self.earlier;
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.captured_entries = contents.entries.saturating_sub(entries);
        report.missed_entries = contents.missed.saturating_sub(missed);
        if let Err(error) = added {
            report.failed_captures = report.failed_captures.saturating_add(1);
            report.capture_error = Some(error);
        }
    }

    fn series<T>(&self, with: impl FnOnce(&mut CaptureSeries) -> T) -> T {
        with(&mut self.series.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::counter::Counter;
    use profiler_core::marker::{MarkerOptions, add_untyped_marker, category};
    use profiler_core::session::Features;
    use test_support::own_process;

    use super::super::PushIdentity;
    use super::*;
    use profiler_parent::Session;

    fn mark(name: &str) {
        add_untyped_marker(name, &category::TEST, MarkerOptions::default());
    }

    fn capturer(session: &Session, directory: &Path) -> Capturer {
        let spool = Spool::open(directory, u64::MAX, &[], &PushIdentity::default());
        Capturer {
            sources: session.engine_sources(),
            spool: Arc::new(spool.unwrap()),
            period: Duration::from_secs(1),
            report: Arc::default(),
            series: Arc::default(),
            earlier: SeriesContents::default(),
            addresses: Arc::default(),
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
    fn the_next_batch_has_the_entries_of_one_that_cannot_be_put_into_the_spool() {
        own_process!();
        let session = Session::builder().features(Features::NONE).start().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let capturer = capturer(&session, directory.path());
        (0..10).for_each(|_| mark("kept"));
        // Directories under all names that the batch may get.
        let unfinished = capturer.spool.unfinished_path().unwrap();
        let home = unfinished.parent().unwrap();
        for entries in 0..5000 {
            fs::create_dir(home.join(format!("{:010}-{entries}.json.gz", 0))).unwrap();
        }
        capturer.capture();
        let report = capturer.report.lock().unwrap().clone();
        assert_eq!((report.captured_entries, report.failed_captures), (0, 1));
        capturer.capture();
        let next = capturer.report.lock().unwrap().clone();
        assert_eq!((next.failed_captures, next.missed_entries), (1, 0));
        assert!(next.captured_entries >= 10, "{next:?}");
    }
}
