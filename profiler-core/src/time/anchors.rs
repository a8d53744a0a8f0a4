//! Anchors, which pair a tick count with a position on the session's line, and the only conversion
//! of ticks, which uses them.
//!
//! The parent takes an anchor when the session starts and another when it captures. All processes
//! use these two anchors to convert. Between the anchors the conversion is an interpolation, so its
//! error is that of the anchors themselves (tens of ns); before and after them it extends the same
//! line.

use serde::{Deserialize, Serialize};

use super::clock::{ClockKind, clock_kind};
use super::line;
use crate::timestamp::Timestamp;

/// Nanoseconds on the session's time line, which begins at `CLOCK_MONOTONIC`: see `line`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MonotonicNs(pub u64);

/// Nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixNs(pub u64);

/// One instant on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The session clock's count.
    pub ticks: Timestamp,
    /// The same instant on the session's line, which begins at `CLOCK_MONOTONIC`.
    pub monotonic: MonotonicNs,
}

impl Anchor {
    const TRIES: usize = 16;

    /// Reads both clocks, as close together as possible in 16 tries. Takes about 1 µs.
    pub fn take() -> Self {
        if clock_kind() == ClockKind::Monotonic {
            let now = Timestamp::now();
            return Self {
                ticks: now,
                monotonic: MonotonicNs(now.raw()),
            };
        }
        let mut best = (
            u64::MAX,
            Self {
                ticks: Timestamp::ZERO,
                monotonic: MonotonicNs(0),
            },
        );
        for _ in 0..Self::TRIES {
            let before = Timestamp::now();
            let monotonic = MonotonicNs(line::now_ns());
            let width = Timestamp::now().since(before);
            if width < best.0 {
                let ticks = Timestamp::from_raw(before.raw().saturating_add(width / 2));
                best = (width, Self { ticks, monotonic });
            }
        }
        best.1
    }
}

/// The clock of a session: its kind, and its start on the other clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClock {
    /// Which clock the timestamps count.
    pub kind: ClockKind,
    /// Start of the session.
    pub start: Anchor,
    /// Start of the session in wall time.
    pub start_unix: UnixNs,
}

impl SessionClock {
    /// The clock of a session that starts now.
    pub fn start_now() -> Self {
        line::begin();
        Self::start_on_line()
    }

    /// The clock of a session that starts now, in a process that records for another session: it
    /// leaves the process on that session's line.
    pub fn start_on_line() -> Self {
        #[allow(clippy::disallowed_methods)] // the session's start in wall time, not a timestamp
        let wall = std::time::SystemTime::now();
        let since_epoch = wall
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let start_unix = UnixNs(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX));
        Self {
            kind: clock_kind(),
            start: Anchor::take(),
            start_unix,
        }
    }

    /// A converter for the timestamps of this session, given a later anchor.
    pub fn converter(&self, later: Anchor) -> TimeConverter {
        TimeConverter::new(self.kind, self.start, later)
    }
}

/// Turns [`Timestamp`]s into nanoseconds relative to the session's start.
///
/// Cost of one conversion: one 128-bit multiplication and a shift, under 2 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeConverter {
    start: Anchor,
    /// Nanoseconds per tick, as a fixed-point number with `SHIFT` fractional bits.
    scale: u128,
}

impl TimeConverter {
    const SHIFT: u32 = 48;

    /// Builds the line through two anchors. Without ticks between them (a broken or forged
    /// header) one tick counts as one nanosecond.
    pub fn new(kind: ClockKind, start: Anchor, later: Anchor) -> Self {
        let ticks = u128::from(later.ticks.since(start.ticks));
        let ns = u128::from(later.monotonic.0.saturating_sub(start.monotonic.0));
        let one = 1_u128 << Self::SHIFT;
        let scale = match kind {
            ClockKind::Monotonic => one,
            ClockKind::CycleCounter if ticks == 0 || ns == 0 => one,
            ClockKind::CycleCounter => (ns << Self::SHIFT) / ticks,
        };
        Self { start, scale }
    }

    /// Nanoseconds from the session's start to `at`; negative before it.
    #[inline]
    pub fn since_start_ns(&self, at: Timestamp) -> i64 {
        let magnitude = |ticks: u64| {
            i64::try_from((u128::from(ticks) * self.scale) >> Self::SHIFT).unwrap_or(i64::MAX)
        };
        if at >= self.start.ticks {
            magnitude(at.since(self.start.ticks))
        } else {
            -magnitude(self.start.ticks.since(at))
        }
    }

    /// The number of ticks in `ns` nanoseconds.
    pub fn ticks_in(&self, ns: u64) -> u64 {
        let ticks = (u128::from(ns) << Self::SHIFT) / self.scale.max(1);
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// The anchor of the session's start.
    pub const fn start(&self) -> Anchor {
        self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(ticks: u64, ns: u64) -> Anchor {
        Anchor {
            ticks: Timestamp::from_raw(ticks),
            monotonic: MonotonicNs(ns),
        }
    }

    #[test]
    fn conversion_goes_through_both_anchors() {
        let converter = TimeConverter::new(
            ClockKind::CycleCounter,
            anchor(1_000, 50),
            anchor(4_000, 1_050),
        );
        assert_eq!(converter.since_start_ns(Timestamp::from_raw(1_000)), 0);
        assert_eq!(
            converter.since_start_ns(Timestamp::from_raw(4_000)),
            1_000 - 1
        ); // truncated
        assert_eq!(converter.since_start_ns(Timestamp::from_raw(2_501)), 500);
        assert_eq!(converter.since_start_ns(Timestamp::from_raw(0)), -333);
    }

    #[test]
    fn a_day_of_ticks_converts_within_a_microsecond() {
        let day_ns = 86_400_000_000_000_u64;
        let rate = 3; // ticks per ns
        let converter = TimeConverter::new(
            ClockKind::CycleCounter,
            anchor(7, 9),
            anchor(7 + 3_000_000_000, 9 + 1_000_000_000),
        );
        let got = converter.since_start_ns(Timestamp::from_raw(7 + day_ns * rate));
        assert!(
            (got - i64::try_from(day_ns).unwrap()).abs() < 1_000,
            "{got}"
        );
    }

    #[test]
    fn equal_anchors_do_not_divide_by_zero() {
        let converter = TimeConverter::new(ClockKind::CycleCounter, anchor(5, 5), anchor(5, 5));
        assert_eq!(converter.since_start_ns(Timestamp::from_raw(15)), 10);
        assert_eq!(converter.ticks_in(10), 10);
    }

    #[test]
    fn anchors_agree_with_the_monotonic_clock() {
        let clock = SessionClock::start_now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let converter = clock.converter(Anchor::take());
        let before = line::now_ns();
        let mine = converter.since_start_ns(Timestamp::now());
        let after = line::now_ns();
        let mine = clock.start.monotonic.0 + u64::try_from(mine).unwrap();
        assert!(
            mine + 2_000 >= before && mine <= after + 2_000,
            "{before} {mine} {after}"
        );
    }
}
