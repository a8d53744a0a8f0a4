//! Time: one type for instants, and one place that converts ticks.
//!
//! [`Timestamp`] is the type that the record path stores: the raw count of the session's clock. All
//! processes of a session read the same clock, so timestamps of different processes compare
//! directly. Only [`TimeConverter`] turns them into nanoseconds, with anchors that the parent took;
//! there is no second conversion, and therefore no skew between processes.

mod anchors;
mod clock;
mod line;

#[doc(hidden)]
pub use anchors::{Anchor, MonotonicNs, SessionClock, TimeConverter, UnixNs};
#[doc(hidden)]
pub use clock::{ClockKind, best_clock, clock_kind, use_clock};
#[doc(hidden)]
pub use line::{LineAnchor, WallReading, join_line};

pub use crate::timestamp::Timestamp;
