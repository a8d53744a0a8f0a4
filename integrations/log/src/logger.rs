//! A logger that records, and passes everything on to the program's own logger.
//!
//! Called by `log`. Invariant: the inner logger gets exactly the calls that it would get without
//! the profiler. During a session the level of `log` may be larger than the program's own; `levels`
//! knows which records and questions are only for the profiler.

use std::fmt;

use log::{LevelFilter, Log, Metadata, Record, SetLoggerError};
use profiler_core::session;

use crate::formatting::{self, Formatting, FormattingScope};
use crate::levels;
use crate::recording;
use crate::rules::RecordingRules;

/// Records, and passes everything on to an inner logger.
///
/// Made by [`around`](crate::around), [`alone`](crate::alone) or [`RecordingRules`].
pub struct ProfilerLogger<L> {
    inner: L,
    rules: RecordingRules,
}

/// The inner logger of a program that has none of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLogger;

impl Log for NoLogger {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn log(&self, _: &Record<'_>) {}

    fn flush(&self) {}
}

impl RecordingRules {
    /// A logger that records by these rules, and passes everything on to `inner`.
    pub fn around<L: Log>(self, inner: L) -> ProfilerLogger<L> {
        ProfilerLogger { inner, rules: self }
    }

    /// A logger that records by these rules, and does nothing else.
    pub fn alone(self) -> ProfilerLogger<NoLogger> {
        self.around(NoLogger)
    }

    /// Whether the profiler records this record now.
    #[inline]
    fn record_this(&self, record: &Record<'_>) -> bool {
        self.record(record.metadata()) && !(self.beside_tracing && is_made_by_tracing(record))
    }
}

/// Whether the crate `tracing` has made this record of a span or an event.
fn is_made_by_tracing(record: &Record<'_>) -> bool {
    let is_static = record.file_static().is_some() || record.module_path_static().is_some();
    record.file().is_some() && !is_static
}

impl<L> ProfilerLogger<L> {
    /// The inner logger.
    pub const fn inner(&self) -> &L {
        &self.inner
    }
}

impl<L: Log + 'static> ProfilerLogger<L> {
    /// Installs this logger, with the largest level that the inner logger gets: that of its filter,
    /// such as `env_logger::Logger::filter`, or [`LevelFilter::Off`] without an inner logger. While
    /// a session runs, the level of `log` is also at least the largest recorded level. A logger that
    /// is installed in another way does not raise the level, and records what reaches it.
    ///
    /// # Errors
    /// If a logger was installed before.
    pub fn install(self, max_level: LevelFilter) -> Result<(), SetLoggerError> {
        let recorded = self.rules.max_level;
        log::set_boxed_logger(Box::new(self))?;
        // Only now: without this logger, the program's own would get what a session adds.
        if cfg!(feature = "enabled") {
            levels::expect(recorded);
            session::on_switch(levels::follow_session);
        }
        levels::set_max_level(max_level);
        Ok(())
    }
}

impl<L: Log> Log for ProfilerLogger<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_wanted = levels::is_own(metadata.level()) && self.inner.enabled(metadata);
        is_wanted || self.rules.record(metadata)
    }

    fn log(&self, record: &Record<'_>) {
        let is_own = levels::is_own(record.level());
        let is_recorded = self.rules.record_this(record);
        match formatting::present() {
            Formatting::Nothing => {}
            // The program's logger formats the outer record, too, and this one comes again.
            Formatting::ForBoth => return,
            // Without the profiler, this one would not exist. The core counts it as dropped.
            Formatting::ForProfiler if is_recorded => return recording::add(record),
            Formatting::ForProfiler => return,
        }
        if is_recorded {
            self.add(record, is_own);
        }
        if is_own {
            self.inner.log(record);
        }
    }

    fn flush(&self) {
        self.inner.flush();
    }
}

impl<L> ProfilerLogger<L> {
    #[inline]
    fn add(&self, record: &Record<'_>, is_own: bool) {
        let _formatting = FormattingScope::enter(if is_own {
            Formatting::ForBoth
        } else {
            Formatting::ForProfiler
        });
        if record.level() <= self.rules.stacks {
            recording::add_with_stack(record);
        } else {
            recording::add(record);
        }
    }
}

impl<L: fmt::Debug> fmt::Debug for ProfilerLogger<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerLogger")
            .field("inner", &self.inner)
            .field("rules", &self.rules)
            .finish()
    }
}
