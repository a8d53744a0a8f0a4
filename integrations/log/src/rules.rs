//! What is recorded of the records of a program.
//!
//! Made by the application, used by the logger.

use log::{Level, LevelFilter, Metadata};
use profiler_core::session;

/// What is recorded: which levels, which records with a stack, and whether those of `tracing` are.
///
/// ```
/// use log::{Level, LevelFilter};
/// use profiler_log::RecordingRules;
///
/// let rules = RecordingRules::default()
///     .max_level(LevelFilter::Trace)
///     .stacks_from(Level::Error);
/// let logger = rules.alone();
/// # drop(logger);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RecordingRules {
    pub(crate) max_level: LevelFilter,
    pub(crate) stacks: LevelFilter,
    pub(crate) beside_tracing: bool,
}

impl Default for RecordingRules {
    /// Records up to the level `Debug`, without stacks.
    fn default() -> Self {
        Self {
            max_level: LevelFilter::Debug,
            stacks: LevelFilter::Off,
            beside_tracing: false,
        }
    }
}

impl RecordingRules {
    /// Records up to this level. By default up to `Debug`. The level and the filters of the
    /// program's own logger do not change what is recorded.
    #[must_use]
    pub const fn max_level(mut self, max_level: LevelFilter) -> Self {
        self.max_level = max_level;
        self
    }

    /// Adds the stack of the call to records of this level and of more severe ones. By default no
    /// record has a stack. A stack costs some microseconds. The key-values of a record with a stack
    /// are one text.
    #[must_use]
    pub const fn stacks_from(mut self, level: Level) -> Self {
        self.stacks = match level {
            Level::Error => LevelFilter::Error,
            Level::Warn => LevelFilter::Warn,
            Level::Info => LevelFilter::Info,
            Level::Debug => LevelFilter::Debug,
            Level::Trace => LevelFilter::Trace,
        };
        self
    }

    /// Leaves out the records that the crate `tracing` makes of its spans and events, because the
    /// program records them with `profiler-tracing`. By default they are recorded.
    ///
    /// `tracing` makes such records with its feature `log` until the program has a subscriber, and
    /// with `log-always` always. They are recognised by their source file: that of a record of the
    /// macros of `log` is a `&'static str`, see [`log::Record::file_static`]. So records that
    /// another crate builds with a file that is not static are left out, too.
    #[must_use]
    pub const fn beside_tracing(mut self, beside_tracing: bool) -> Self {
        self.beside_tracing = beside_tracing;
        self
    }

    /// Whether a record is recorded now.
    #[inline]
    pub(crate) fn record(&self, metadata: &Metadata<'_>) -> bool {
        are_applied() && metadata.level() <= self.max_level
    }
}

/// Whether anything is recorded now.
#[inline]
pub(crate) fn are_applied() -> bool {
    cfg!(feature = "enabled") && session::is_active()
}
