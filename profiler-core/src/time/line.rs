//! The session's time line in nanoseconds: one for all processes, even if their clocks differ.
//!
//! Anchors are pairs of ticks and a position on this line. It begins at the `CLOCK_MONOTONIC` of
//! the process that starts the session. Without correction, two things would make positions
//! disagree:
//!
//! - **Suspend.** The cycle counter advances while the machine sleeps; `CLOCK_MONOTONIC` does not.
//!   With that counter the line therefore follows `CLOCK_BOOTTIME`, which advances as well.
//! - **Time namespaces.** In a container, or after a restore by CRIU, both clocks have another
//!   origin. A process that attaches a pool compares its clocks with the values that the maker of
//!   the pool read.
//!
//! In both cases the system's clock and the line differ by a constant, [`SHIFT`], which each
//! process sets once per session. The timestamps of the fallback clock are positions on the line
//! themselves.

use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use super::anchors::{MonotonicNs, UnixNs};
use super::clock::{ClockKind, clock_kind};
use crate::sys;

/// The offset added to the system's clock.
static SHIFT: AtomicI64 = AtomicI64::new(0);

/// If the namespaces are unknown, clocks that differ by at least this are assumed to belong to two
/// namespaces.
const OTHER_NAMESPACE_NS: u64 = 1_000_000_000;
/// The number of times that two clocks are read; the quickest reading counts.
const TRIES: usize = 16;

/// A position on the line and in wall time, at the same instant, with the namespace of the process
/// that read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineAnchor {
    /// Number of the time namespace; 0 if unknown.
    pub namespace: u64,
    /// The offset that the process adds to its system clock.
    pub shift: i64,
    /// Position on the line.
    pub line: MonotonicNs,
    /// The same instant in wall time, which is the same in all namespaces.
    pub unix: UnixNs,
}

impl LineAnchor {
    /// Reads both clocks, as close together as possible in 16 tries.
    pub fn take() -> Self {
        let (line, unix) = at_once(now_ns, wall_ns);
        Self {
            namespace: sys::time_namespace(),
            shift: SHIFT.load(Ordering::Relaxed),
            line: MonotonicNs(line),
            unix: UnixNs(unix),
        }
    }

    /// The offset that a process adds to its system clock to be on this line. `clock` and `unix`
    /// are the values of its clocks now.
    fn shift_for(&self, namespace: u64, clock: u64, unix: u64) -> i64 {
        if namespace == self.namespace && namespace != 0 {
            return self.shift;
        }
        let line_now = i128::from(self.line.0) + i128::from(unix) - i128::from(self.unix.0);
        let shift = i64::try_from(line_now - i128::from(clock)).unwrap_or(0);
        let is_known = namespace != 0 && self.namespace != 0;
        let is_another = is_known || shift.abs_diff(self.shift) >= OTHER_NAMESPACE_NS;
        if is_another { shift } else { self.shift }
    }
}

/// One instant on the clocks by which recordings of different sessions and machines are aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallReading {
    /// Position on the line.
    pub line: MonotonicNs,
    /// The same instant in wall time.
    pub unix: UnixNs,
    /// The same instant on the system's clock that the line follows. The two differ by a constant,
    /// so no second clock is read. All sessions of one boot, one time namespace and one
    /// [`ClockKind`] share this clock.
    pub system: u64,
    /// Number of the time namespace; 0 if unknown.
    pub namespace: u64,
    /// The time between the two reads of the line around the read of the wall clock, in
    /// nanoseconds: the anchor is at most half of it wrong.
    pub width_ns: u64,
}

impl WallReading {
    /// Reads the clocks, as close together as possible in 16 tries.
    pub fn take() -> Self {
        let (line, unix, width_ns) = closest(now_ns, wall_ns);
        let shift = SHIFT.load(Ordering::Relaxed);
        Self {
            line: MonotonicNs(line),
            unix: UnixNs(unix),
            system: line.saturating_add_signed(shift.saturating_neg()),
            namespace: sys::time_namespace(),
            width_ns,
        }
    }
}

/// Begins a session in this process: its line begins at `CLOCK_MONOTONIC`.
pub(super) fn begin() {
    let (clock, monotonic) = at_once(|| read(follows(clock_kind())), || read(ClockId::Monotonic));
    SHIFT.store(difference(monotonic, clock), Ordering::Relaxed);
}

/// Puts this process on the line on which `made` was taken. Must be called before anything is
/// recorded.
pub fn join_line(made: &LineAnchor) {
    if made.unix.0 == 0 {
        return; // the maker of the pool took no anchor
    }
    let (clock, unix) = at_once(|| read(follows(clock_kind())), wall_ns);
    SHIFT.store(
        made.shift_for(sys::time_namespace(), clock, unix),
        Ordering::Relaxed,
    );
}

/// The present position on the line.
pub(super) fn now_ns() -> u64 {
    read(follows(clock_kind())).saturating_add_signed(SHIFT.load(Ordering::Relaxed))
}

/// The system clock that advances exactly when the session's clock does.
const fn follows(kind: ClockKind) -> ClockId {
    match kind {
        #[cfg(all(target_os = "linux", not(profiler_portable)))]
        ClockKind::CycleCounter => ClockId::Boottime,
        #[cfg(not(all(target_os = "linux", not(profiler_portable))))]
        ClockKind::CycleCounter => ClockId::Monotonic,
        ClockKind::Monotonic => ClockId::Monotonic,
    }
}

fn read(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

fn wall_ns() -> u64 {
    read(ClockId::Realtime)
}

/// Reads two clocks as close together as possible in some tries.
fn at_once(first: impl Fn() -> u64, second: impl Fn() -> u64) -> (u64, u64) {
    let (first, second, _) = closest(first, second);
    (first, second)
}

/// Reads two clocks as close together as possible in some tries. Also returns the time between the
/// reads of the first clock before and after the read of the second.
fn closest(first: impl Fn() -> u64, second: impl Fn() -> u64) -> (u64, u64, u64) {
    let read_once = |_| {
        let before = first();
        let between = second();
        let after = first();
        let width = after.saturating_sub(before);
        (before.saturating_add(width / 2), between, width)
    };
    (0..TRIES)
        .map(read_once)
        .min_by_key(|(_, _, width)| *width)
        .unwrap_or_default()
}

fn difference(left: u64, right: u64) -> i64 {
    i64::try_from(i128::from(left) - i128::from(right)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Anchor, TimeConverter, Timestamp};

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;

    /// A machine whose counter makes three ticks per nanosecond, also while it sleeps.
    struct Machine {
        awake: u64,
        asleep: u64,
    }

    impl Machine {
        fn ticks(&self) -> Timestamp {
            Timestamp::from_raw(3 * (self.awake + self.asleep) + 12_345)
        }

        fn clock(&self, clock: ClockId) -> u64 {
            if clock == ClockId::Boottime {
                self.awake + self.asleep
            } else {
                self.awake
            }
        }

        /// An anchor, with the shift of a session that began when the machine had slept for
        /// `asleep`.
        fn anchor(&self, asleep: u64) -> Anchor {
            let shift = difference(0, asleep);
            let line = self
                .clock(follows(ClockKind::CycleCounter))
                .saturating_add_signed(shift);
            Anchor {
                ticks: self.ticks(),
                monotonic: MonotonicNs(line),
            }
        }
    }

    #[cfg(all(target_os = "linux", not(profiler_portable)))]
    #[test]
    fn a_suspend_of_hours_moves_no_timestamp_before_or_after_it() {
        let mut machine = Machine {
            awake: 5 * HOUR,
            asleep: 2 * HOUR,
        };
        let start = machine.anchor(2 * HOUR);
        assert_eq!(
            start.monotonic.0,
            5 * HOUR,
            "the line begins at CLOCK_MONOTONIC"
        );
        machine.awake += 10 * SECOND;
        let before = machine.ticks();
        machine.asleep += 8 * HOUR;
        let after = machine.ticks();
        machine.awake += SECOND;
        let end = machine.ticks();
        machine.awake += 20 * SECOND;
        let later = machine.anchor(2 * HOUR);
        let converter = TimeConverter::new(ClockKind::CycleCounter, start, later);
        let second = |at| (converter.since_start_ns(at) + 500) / 1_000_000_000;
        assert_eq!(second(before), 10, "recorded before the suspend");
        assert_eq!(second(after), 10 + 8 * 3600, "the time asleep is included");
        assert_eq!(second(end) - second(after), 1, "recorded after the suspend");
    }

    #[test]
    fn in_one_namespace_all_processes_add_the_same_offset() {
        let made = LineAnchor {
            namespace: 7,
            shift: -55,
            line: MonotonicNs(100),
            unix: UnixNs(1000),
        };
        // Wall time was changed by an hour meanwhile.
        assert_eq!(made.shift_for(7, 110, 1000 + HOUR), -55);
        assert_eq!(
            made.shift_for(0, 120, 1000),
            -55,
            "a small difference is not another namespace"
        );
    }

    #[test]
    fn a_clock_of_another_namespace_is_put_on_the_line_of_the_maker() {
        let day = 24 * HOUR;
        let boot = 90 * SECOND;
        let made = LineAnchor {
            namespace: 7,
            shift: 0,
            line: MonotonicNs(boot),
            unix: UnixNs(1000 * SECOND),
        };
        // A second later, in a namespace that is 20 days ahead.
        let clock = boot + 20 * day + SECOND;
        for namespace in [8, 0] {
            let shift = made.shift_for(namespace, clock, 1001 * SECOND);
            assert_eq!(
                clock.saturating_add_signed(shift),
                boot + SECOND,
                "{namespace}"
            );
        }
    }

    #[test]
    fn a_session_begins_on_the_monotonic_clock() {
        begin();
        let (line, monotonic) = at_once(now_ns, || read(ClockId::Monotonic));
        assert!(line.abs_diff(monotonic) < 1_000_000, "{line} {monotonic}");
    }

    #[test]
    fn two_readings_agree_on_the_distance_between_line_and_system_clock() {
        begin();
        let [one, other] = [WallReading::take(), WallReading::take()];
        assert!(one.line <= other.line);
        let system = read(follows(clock_kind()));
        assert!(one.system <= system);
        let distance = |reading: &WallReading| reading.system.abs_diff(reading.line.0);
        // A test in another thread may begin a session meanwhile.
        assert!(distance(&one).abs_diff(distance(&other)) < 10_000_000);
    }
}
