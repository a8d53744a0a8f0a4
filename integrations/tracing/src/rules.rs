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
    pub(crate) beyond_filters: bool,
}

impl Default for RecordingRules {
    /// Spans and events up to the level `DEBUG` that the inner subscriber wants, without polls.
    fn default() -> Self {
        Self {
            max_level: LevelFilter::DEBUG,
            polls: false,
            beyond_filters: false,
        }
    }
}

impl RecordingRules {
    /// Records spans and events up to this level. By default up to `DEBUG`.
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

    /// Also records the spans and events that the filters of the inner subscriber refuse. By
    /// default they are not recorded.
    ///
    /// A span that is refused is then enabled during a session, and the inner subscriber does not
    /// know its number: `Span::or_current` returns the span itself, and an extension that looks the
    /// number up in a registry does not find it. Do not use this rule with an extension that panics
    /// in this case, such as `OpenTelemetrySpanExt::set_parent`. The `Debug` of values runs that
    /// the filters keep from running. The layer never sees what the global filters of its registry
    /// refuse, and ignores this rule.
    #[must_use]
    pub const fn beyond_filters(mut self, beyond_filters: bool) -> Self {
        self.beyond_filters = beyond_filters;
        self
    }

    /// Whether a span or an event that the inner subscriber refuses is recorded now.
    #[inline]
    pub(crate) fn record_unwanted(&self, metadata: &Metadata<'_>) -> bool {
        self.beyond_filters && self.record(metadata)
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
