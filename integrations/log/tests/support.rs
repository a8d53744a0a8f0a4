//! Code that the tests share: how the logger is installed, and a logger that notes what it gets.

use std::sync::{Arc, Mutex, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};
use profiler_log::{alone, around};
use recorded_session::{RunningSession, markers};

/// Installs the logger of this crate alone, and starts a session.
pub(crate) fn start_alone() -> RunningSession {
    alone().install(LevelFilter::Off).unwrap();
    RunningSession::start()
}

/// The messages of the recorded markers.
pub(crate) fn messages() -> Vec<String> {
    let markers = markers().into_iter();
    markers.filter_map(|seen| seen.text("message")).collect()
}

/// A logger that notes its calls, with a filter of its own.
#[derive(Clone, Debug)]
pub(crate) struct Noting {
    calls: Arc<Mutex<Vec<String>>>,
    filter: LevelFilter,
}

impl Noting {
    pub(crate) fn up_to(filter: LevelFilter) -> Self {
        let calls = Arc::default();
        Self { calls, filter }
    }

    /// Installs the logger of this crate around a new one, which lets through what is up to
    /// `filter`, with `level` as the level of `log`.
    pub(crate) fn installed(filter: LevelFilter, level: LevelFilter) -> Self {
        let noting = Self::up_to(filter);
        around(noting.clone()).install(level).unwrap();
        noting
    }

    /// The calls since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *calls)
    }

    fn note(&self, call: String) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(call);
    }
}

impl Log for Noting {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let (level, target) = (metadata.level(), metadata.target());
        self.note(format!("enabled {level} {target}"));
        level <= self.filter
    }

    fn log(&self, record: &Record<'_>) {
        // Like most loggers, it formats what its filter lets through, and nothing else.
        if record.level() <= self.filter {
            let text = format!("{} {}", record.level(), record.args());
            self.note(text);
        } else {
            self.note(format!("refused {}", record.level()));
        }
    }

    fn flush(&self) {
        self.note("flush".to_owned());
    }
}
