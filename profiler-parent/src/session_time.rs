//! The session's time: nanoseconds since the start of the session, the same for all processes.
//!
//! Used by all modules that show or compare times of a session. A conversion needs a second clock
//! anchor, and is exact up to the time of that anchor. [`SessionTime`] takes a new one for each
//! converter.

use profiler_core::time::{Anchor, SessionClock, TimeConverter, Timestamp, UnixNs};
use serde::Serialize;

/// Nanoseconds since the start of the session; negative before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct SessionNs(pub i64);

/// Converts between session time, timestamps and dates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionTime(SessionClock);

impl SessionTime {
    /// Creates the time of a session that starts now.
    pub(crate) fn start_now() -> Self {
        Self(SessionClock::start_now())
    }

    /// Creates the time of a session that starts now, in a process that records for another session
    /// and keeps the time line of that session.
    pub(crate) fn start_on_line() -> Self {
        Self(SessionClock::start_on_line())
    }

    /// The clock that all processes of the session use.
    pub(crate) const fn clock(self) -> SessionClock {
        self.0
    }

    /// The current session time.
    pub(crate) fn now(self) -> SessionNs {
        SessionNs(self.converter().since_start_ns(Timestamp::now()))
    }

    /// Converts timestamps, as exactly as is possible now.
    pub(crate) fn converter(self) -> TimeConverter {
        self.0.converter(Anchor::take())
    }

    /// The timestamp of a point in session time. `later` is an anchor that was taken after the
    /// session's start.
    pub(crate) fn timestamp_of(self, at: SessionNs, later: Anchor) -> Timestamp {
        let ticks = self.0.converter(later).ticks_in(at.0.unsigned_abs());
        let start = self.0.start.ticks.raw();
        let raw = if at.0 < 0 {
            start.saturating_sub(ticks)
        } else {
            start.saturating_add(ticks)
        };
        Timestamp::from_raw(raw)
    }

    /// The wall time of a point in session time.
    pub(crate) const fn date_of(self, at: SessionNs) -> UnixNs {
        UnixNs(self.0.start_unix.0.saturating_add_signed(at.0))
    }
}
