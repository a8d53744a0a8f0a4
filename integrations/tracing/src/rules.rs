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
    pub(crate) only_wanted: bool,
}

impl Default for RecordingRules {
    /// Spans and events up to the level `DEBUG`, without polls.
    fn default() -> Self {
        Self {
            max_level: LevelFilter::DEBUG,
            polls: false,
            only_wanted: false,
        }
    }
}

impl RecordingRules {
    /// Records spans and events up to this level. By default up to `DEBUG`. The filters of an inner
    /// subscriber do not change what is recorded, unless [`only_wanted`](Self::only_wanted) is set.
    /// The layer gets what the global filters of its registry let through.
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

    /// Records only the spans and events that the inner subscriber wants. By default it records
    /// the others, too. Then a span that the program's filter disables is enabled during a session,
    /// and the inner subscriber does not know its number: `Span::or_current` returns the span
    /// itself, and an extension that looks the number up in a registry does not find it. An
    /// extension that panics in this case, such as `OpenTelemetrySpanExt::set_parent`, needs this
    /// rule. The layer never sees what no filter lets through, and ignores this rule.
    #[must_use]
    pub const fn only_wanted(mut self, only_wanted: bool) -> Self {
        self.only_wanted = only_wanted;
        self
    }

    /// Whether a span or an event that the inner subscriber refuses is recorded now.
    #[inline]
    pub(crate) fn record_unwanted(&self, metadata: &Metadata<'_>) -> bool {
        !self.only_wanted && self.record(metadata)
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
