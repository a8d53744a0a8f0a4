//! The clock of a trace, and how it relates to the time of day.
//!
//! Used by [`super::packets`]. The clock is the system's monotonic clock, so that the trace can be
//! compared with another trace of the machine. A profile without this time has the time of day
//! instead.

use super::super::proto::Message;
use profiler_reader::Meta;

/// Perfetto's numbers of clocks.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
/// Fields of `ClockSnapshot` and of its `Clock`.
const CLOCKS: u64 = 1;
const PRIMARY: u64 = 2;
const CLOCK_ID: u64 = 1;
const TIMESTAMP: u64 = 2;

/// Limit on the session's start, in nanoseconds (146 years), so that adding session times does not
/// overflow.
const MAX_NS: i64 = 1 << 62;

/// The clock of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceClock {
    /// Perfetto's number of the clock.
    pub(super) id: u64,
    /// The session's start on this clock.
    start_ns: i64,
    /// The session's start as nanoseconds since 1970.
    start_unix_ns: Option<i64>,
}

impl TraceClock {
    pub(super) fn of(meta: &Meta) -> Self {
        let bounded = |ns: f64| (ns as i64).clamp(-MAX_NS, MAX_NS);
        let start_unix_ns = meta.start_time.map(|ms| bounded(ms * 1e6));
        let monotonic = meta.start_monotonic_ns.map(bounded);
        let (id, start_ns) = match (monotonic, start_unix_ns) {
            (None, Some(unix)) => (REALTIME, unix),
            (monotonic, _) => (MONOTONIC, monotonic.unwrap_or(0)),
        };
        Self {
            id,
            start_ns,
            start_unix_ns,
        }
    }

    /// Converts nanoseconds since the session's start. A time before the clock's origin becomes the
    /// origin.
    pub(super) const fn at(self, ns: i64) -> u64 {
        let at = self.start_ns.saturating_add(ns);
        if at < 0 { 0 } else { at.unsigned_abs() }
    }

    /// The message `ClockSnapshot`: the session's start on both clocks.
    pub(super) fn snapshot(self) -> Message {
        let mut snapshot = Message::default();
        let mut add = |id: u64, at: u64| {
            let mut clock = Message::default();
            clock.number(CLOCK_ID, id);
            clock.any_number(TIMESTAMP, at);
            snapshot.message(CLOCKS, &clock);
        };
        add(self.id, self.at(0));
        let unix = self.start_unix_ns.filter(|_| self.id != REALTIME);
        if let Some(unix) = unix {
            add(REALTIME, unix.max(0).unsigned_abs());
        }
        snapshot.number(PRIMARY, self.id);
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(meta: &str) -> TraceClock {
        TraceClock::of(&serde_json::from_str(meta).unwrap())
    }

    #[test]
    fn a_trace_has_the_monotonic_clock_or_else_the_time_of_day() {
        let both = r#"{"startTime":2000,"startTimeAsClockMonotonicNanosecondsSinceBoot":500}"#;
        let cases = [
            (both, MONOTONIC, 507),
            (r#"{"startTime":2000}"#, REALTIME, 2_000_000_007),
            ("{}", MONOTONIC, 7),
        ];
        for (meta, id, at) in cases {
            let clock = clock(meta);
            assert_eq!((clock.id, clock.at(7)), (id, at), "{meta}");
        }
        assert_eq!(clock("{}").at(-7), 0, "no time is before the origin");
        let length = |meta: &str| clock(meta).snapshot().as_bytes().len();
        assert!(length(both) > length(r#"{"startTime":2000}"#), "two clocks");
    }
}
