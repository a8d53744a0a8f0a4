//! When a marker happened, and on which thread.

use crate::entry::Timing;
use crate::ids::ThreadId;
use crate::time::Timestamp;

/// When a marker happened. The clock is read only if the marker is recorded.
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
    /// Begins now; an [`MarkerTiming::IntervalEnd`] of the same name ends it. Unlike a scope it
    /// is seen even if its end never comes.
    IntervalStart,
    /// Ends now.
    IntervalEnd,
}

impl MarkerTiming {
    #[inline(always)]
    pub(crate) fn resolve(self) -> Timing {
        match self {
            Self::InstantNow => Timing::Instant(Timestamp::now()),
            Self::InstantAt(at) => Timing::Instant(at),
            Self::Interval(start, end) => Timing::Interval(start, end),
            Self::IntervalUntilNowFrom(start) => Timing::Interval(start, Timestamp::now()),
            Self::IntervalStart => Timing::Start(Timestamp::now()),
            Self::IntervalEnd => Timing::End(Timestamp::now()),
        }
    }
}

/// The stack that a marker carries: where on the calling thread it was recorded.
///
/// Taken at once, on the calling thread, also for a marker that belongs to another one; costs no more than a
/// sample does, some microseconds. A marker without a stack costs what it costs without this option.
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
    /// When it happened.
    pub timing: MarkerTiming,
    /// The thread it belongs to, if not the calling one. A thread that the profile does not
    /// know lets the marker stay with the calling thread.
    pub thread: Option<ThreadId>,
    /// The stack that it carries.
    pub stack: MarkerStack,
}

impl MarkerOptions {
    /// At this instant.
    pub const fn instant_at(at: Timestamp) -> Self {
        Self { timing: MarkerTiming::InstantAt(at), thread: None, stack: MarkerStack::None }
    }

    /// From one instant to another.
    pub const fn interval(start: Timestamp, end: Timestamp) -> Self {
        Self { timing: MarkerTiming::Interval(start, end), thread: None, stack: MarkerStack::None }
    }

    /// From this instant until now.
    pub const fn interval_until_now_from(start: Timestamp) -> Self {
        Self { timing: MarkerTiming::IntervalUntilNowFrom(start), thread: None, stack: MarkerStack::None }
    }

    /// Begins now.
    pub const fn interval_start() -> Self {
        Self { timing: MarkerTiming::IntervalStart, thread: None, stack: MarkerStack::None }
    }

    /// Ends now.
    pub const fn interval_end() -> Self {
        Self { timing: MarkerTiming::IntervalEnd, thread: None, stack: MarkerStack::None }
    }

    /// On another thread of this process.
    #[must_use]
    pub const fn on_thread(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self
    }

    /// With the stack that it is recorded on.
    ///
    /// ```
    /// use profiler_core::marker;
    /// use profiler_core::marker::{MarkerOptions, MarkerStack, category};
    ///
    /// marker!("slow query", &category::IO, MarkerOptions::default().with_stack(MarkerStack::Full));
    /// ```
    #[must_use]
    pub const fn with_stack(mut self, stack: MarkerStack) -> Self {
        self.stack = stack;
        self
    }
}

impl From<MarkerTiming> for MarkerOptions {
    fn from(timing: MarkerTiming) -> Self {
        Self { timing, thread: None, stack: MarkerStack::None }
    }
}
