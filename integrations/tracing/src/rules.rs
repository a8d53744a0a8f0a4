//! What is recorded of the spans and events of a program.
//!
//! Made by the application, used by the subscriber and by the layer.

use profiler_core::session;
use tracing_core::{LevelFilter, Metadata};

/// What is recorded: which levels, and whether polls are.
///
/// ```
/// use profiler_tracing::RecordingRules;
/// use tracing::level_filters::LevelFilter;
///
/// let rules = RecordingRules::default().max_level(LevelFilter::TRACE).polls(true);
/// let subscriber = rules.around(tracing_subscriber::registry());
/// # drop(subscriber);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RecordingRules {
    pub(crate) max_level: LevelFilter,
    pub(crate) polls: bool,
}

impl Default for RecordingRules {
    /// Spans and events up to the level `DEBUG`, without polls.
    fn default() -> Self {
        Self {
            max_level: LevelFilter::DEBUG,
            polls: false,
        }
    }
}

impl RecordingRules {
    /// Records spans and events up to this level. By default up to `DEBUG`. The filters of the
    /// program's own subscriber do not change what is recorded.
    #[must_use]
    pub const fn max_level(mut self, max_level: LevelFilter) -> Self {
        self.max_level = max_level;
        self
    }

    /// Records an interval each time a thread enters and leaves a span: for the span of a future,
    /// one interval per poll. By default it does not.
    #[must_use]
    pub const fn polls(mut self, polls: bool) -> Self {
        self.polls = polls;
        self
    }

    /// Whether a span or an event is recorded now.
    #[inline]
    pub(crate) fn record(&self, metadata: &Metadata<'_>) -> bool {
        self.are_applied() && *metadata.level() <= self.max_level
    }

    /// Whether anything is recorded now.
    #[inline]
    pub(crate) fn are_applied(&self) -> bool {
        cfg!(feature = "enabled") && session::is_active()
    }
}
