//! Options of markers and spans: time, thread, stack, and the text and group of a span.
//!
//! Compiled with and without the feature `engine`. Applications use this module as
//! [`crate::marker`].

use crate::ids::ThreadId;
use crate::time::Timestamp;

/// The time of a marker. The clock is read only if the marker is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerTiming {
    /// Now.
    #[default]
    InstantNow,
    /// At this instant.
    InstantAt(Timestamp),
    /// From one instant to another.
    Interval(Timestamp, Timestamp),
    /// From this instant until now.
    IntervalUntilNowFrom(Timestamp),
    /// Begins now; a [`MarkerTiming::IntervalEnd`] of the same name ends it. Unlike a scope, it is
    /// in the profile even if it never ends.
    IntervalStart,
    /// Ends now.
    IntervalEnd,
}

/// The stack that a marker carries.
///
/// The stack is that of the calling thread, even if the marker belongs to another thread. It costs
/// about as much as a sample: some microseconds. A marker without a stack costs nothing extra.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarkerStack {
    /// None.
    #[default]
    None,
    /// Native frames and labels. Where stacks cannot be walked, the labels alone.
    Full,
    /// The open labels alone, see [`crate::label`](mod@crate::label).
    Labels,
}

/// Options of a marker.
///
/// ```
/// use profiler_core::marker::MarkerOptions;
/// use profiler_core::time::Timestamp;
///
/// let start = Timestamp::now();
/// let options = MarkerOptions::interval_until_now_from(start);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkerOptions {
    /// The time of the marker.
    pub timing: MarkerTiming,
    /// The thread it belongs to, if not the calling thread. If the profile does not contain that
    /// thread, the marker stays with the calling thread.
    pub thread: Option<ThreadId>,
    /// The stack that it carries.
    pub stack: MarkerStack,
}

impl MarkerOptions {
    /// At this instant.
    pub const fn instant_at(at: Timestamp) -> Self {
        Self {
            timing: MarkerTiming::InstantAt(at),
            thread: None,
            stack: MarkerStack::None,
        }
    }

    /// From one instant to another. An end before the start counts as the start. In a profile, a time
    /// after its capture counts as that of the capture.
    pub const fn interval(start: Timestamp, end: Timestamp) -> Self {
        Self {
            timing: MarkerTiming::Interval(start, end),
            thread: None,
            stack: MarkerStack::None,
        }
    }

    /// From this instant until now.
    pub const fn interval_until_now_from(start: Timestamp) -> Self {
        Self {
            timing: MarkerTiming::IntervalUntilNowFrom(start),
            thread: None,
            stack: MarkerStack::None,
        }
    }

    /// Begins now.
    pub const fn interval_start() -> Self {
        Self {
            timing: MarkerTiming::IntervalStart,
            thread: None,
            stack: MarkerStack::None,
        }
    }

    /// Ends now.
    pub const fn interval_end() -> Self {
        Self {
            timing: MarkerTiming::IntervalEnd,
            thread: None,
            stack: MarkerStack::None,
        }
    }

    /// On another thread of this process.
    #[must_use]
    pub const fn on_thread(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Adds the stack of the call that records the marker.
    ///
    /// ```
    /// use profiler_core::marker;
    /// use profiler_core::marker::{MarkerOptions, MarkerStack, category};
    ///
    /// let with_stack = MarkerOptions::default().with_stack(MarkerStack::Full);
    /// marker!("slow query", &category::IO, with_stack);
    /// ```
    #[must_use]
    pub const fn with_stack(mut self, stack: MarkerStack) -> Self {
        self.stack = stack;
        self
    }
}

impl From<MarkerTiming> for MarkerOptions {
    fn from(timing: MarkerTiming) -> Self {
        Self {
            timing,
            thread: None,
            stack: MarkerStack::None,
        }
    }
}

/// Options of a span.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(all(feature = "engine", unix)), allow(dead_code))] // nothing reads the fields
pub struct SpanOptions<'a> {
    pub(crate) label: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
}

impl<'a> SpanOptions<'a> {
    /// Adds a text beside the name.
    #[must_use]
    pub const fn label(mut self, label: &'a str) -> Self {
        self.label = Some(label);
        self
    }

    /// Assigns everything that the thread records while the span is open to this group, for the
    /// group's observers; `*` stands for all groups.
    #[must_use]
    pub const fn group(mut self, group: &'a str) -> Self {
        self.group = Some(group);
        self
    }
}

impl<'a> From<&'a str> for SpanOptions<'a> {
    fn from(label: &'a str) -> Self {
        Self::default().label(label)
    }
}
