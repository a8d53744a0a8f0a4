//! How much a profile shows of what samplers record at every tick: the values of counters, and
//! their own cost.
//!
//! Set by the capture; used in the first pass and where counters are written. A profile for viewers
//! has every tick. A batch of a pusher has the values of each second, because no engine takes more.
//! Invariant: both contain the last and the highest value of each counter.

use profiler_core::time::{SessionClock, TimeConverter};
use profiler_gecko::model::{CounterKind, CounterPoint};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// How much a profile shows of each tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TickDetail {
    /// Every value, and the cost of each tick.
    #[default]
    EveryTick,
    /// The last and the highest value of each counter in each second. Leaves out the cost of ticks,
    /// and the display settings of counters except the unit.
    EachSecond,
}

/// The value of a counter in a pool: time, value as unsigned bits, and number of changes.
pub(super) type CounterRow = [u64; 3];

/// The seconds of the wall clock, in ticks of the session's clock. Engines divide counters into the
/// same seconds, so they choose the same last values from a batch and from a whole profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct WallSeconds {
    /// The beginning of the second in which the session began. May be before tick 0.
    origin: i128,
    length: u64,
}

impl WallSeconds {
    /// The seconds of a session.
    pub(super) fn of(clock: &SessionClock, converter: &TimeConverter) -> Self {
        let into_second = converter.ticks_in(clock.start_unix.0 % SECOND_NS);
        Self {
            origin: i128::from(clock.start.ticks.raw()) - i128::from(into_second),
            length: converter.ticks_in(SECOND_NS).max(1),
        }
    }

    fn second_of(self, [at, ..]: CounterRow) -> i128 {
        (i128::from(at) - self.origin).div_euclid(i128::from(self.length))
    }
}

/// Chooses the last and the highest of a counter's values in each second, and the very first value:
/// changes begin there.
#[derive(Debug, Default)]
pub(super) struct PerSecondFilter {
    has_begun: bool,
    /// The last value of the present second.
    last: Option<CounterRow>,
    /// The highest value of the present second, if later ones are lower.
    highest: Option<CounterRow>,
}

impl PerSecondFilter {
    /// Adds the next value. Returns the values to keep: the very first one, or those of the second
    /// that has ended.
    pub(super) fn add(
        &mut self,
        row: CounterRow,
        seconds: WallSeconds,
    ) -> impl Iterator<Item = CounterRow> + use<> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let mut ended = None;
        if !is_first {
            match self.last {
                Some(last) if seconds.second_of(last) != seconds.second_of(row) => {
                    ended = Some(self.end_second());
                }
                Some(last) if value_of(last) > value_of(row) && self.is_highest(last) => {
                    self.highest = Some(last);
                }
                _ => {}
            }
            self.last = Some(row);
        }
        let first = is_first.then_some(row);
        first.into_iter().chain(ended.into_iter().flatten())
    }

    /// Ends the present second. Returns its values to keep, in the order of their times.
    pub(super) fn end_second(&mut self) -> impl Iterator<Item = CounterRow> + use<> {
        let (last, highest) = (self.last.take(), self.highest.take());
        let is_higher =
            |high: &CounterRow| last.is_none_or(|last| value_of(last) < value_of(*high));
        highest.filter(is_higher).into_iter().chain(last)
    }

    fn is_highest(&self, row: CounterRow) -> bool {
        self.highest
            .is_none_or(|high| value_of(high) < value_of(row))
    }
}

const fn value_of([_, value, _]: CounterRow) -> i64 {
    value.cast_signed()
}

/// The values of a counter as changes since the value before. Unlike
/// [`CounterPoints`](profiler_gecko::model::CounterPoints), it does not divide
/// the changes of a rate into the steps that a viewer draws.
#[derive(Debug)]
pub(super) struct CounterChanges {
    kind: CounterKind,
    start_ns: i64,
    last: Option<CounterPoint>,
}

impl CounterChanges {
    /// No changes yet, for a counter whose values are known from `start_ns` on.
    pub(super) const fn new(kind: CounterKind, start_ns: i64) -> Self {
        Self {
            kind,
            start_ns,
            last: None,
        }
    }

    /// Calls `show` with the change to the next value.
    pub(super) fn value(&mut self, value: CounterPoint, show: &mut dyn FnMut(CounterPoint)) {
        let Some(before) = self.last else {
            return self.begin(value, show);
        };
        let at_ns = value.at_ns.max(before.at_ns);
        self.last = Some(CounterPoint { at_ns, ..value });
        show(CounterPoint {
            at_ns,
            value: value.value.saturating_sub(before.value),
            number: value.number.saturating_sub(before.number),
        });
    }

    /// Shows the first value. Viewers ignore the very first point, so a level has two.
    fn begin(&mut self, first: CounterPoint, show: &mut dyn FnMut(CounterPoint)) {
        let at_ns = first.at_ns;
        show(CounterPoint {
            at_ns,
            ..CounterPoint::default()
        });
        if self.kind == CounterKind::Level && first.value != 0 {
            show(CounterPoint { number: 0, ..first });
        }
        self.last = Some(first);
    }

    /// Calls `show` with the change up to `end_ns`. `present` is the value there, or `None` for the
    /// last value; its time does not matter.
    pub(super) fn end(
        mut self,
        end_ns: i64,
        present: Option<CounterPoint>,
        show: &mut dyn FnMut(CounterPoint),
    ) {
        let Some(value) = present.or(self.last) else {
            return;
        };
        if self.last.is_none() {
            let at_ns = self.start_ns;
            self.begin(CounterPoint { at_ns, ..value }, show);
        }
        let least_ns = |last: CounterPoint| last.at_ns.saturating_add(1);
        let at_ns = end_ns.max(self.last.map_or(end_ns, least_ns));
        self.value(CounterPoint { at_ns, ..value }, show);
    }
}

#[cfg(test)]
mod tests {
    use profiler_core::time::{Anchor, ClockKind, MonotonicNs, Timestamp, UnixNs};
    use proptest::prelude::*;

    use super::*;

    /// Seconds of a thousand ticks, with a border at 300.
    const SECONDS: WallSeconds = WallSeconds {
        origin: -700,
        length: 1000,
    };

    /// The values that are kept.
    fn kept(values: &[(u64, i64)]) -> Vec<(u64, i64)> {
        let mut filter = PerSecondFilter::default();
        let mut kept = Vec::new();
        for (at, value) in values {
            kept.extend(filter.add([*at, value.cast_unsigned(), 0], SECONDS));
        }
        kept.extend(filter.end_second());
        let plain = kept.into_iter().map(|row| (row[0], value_of(row)));
        plain.collect()
    }

    #[test]
    fn a_second_has_its_last_and_its_highest_value() {
        let growing = [
            (310, 0),
            (400, 1),
            (1290, 5),
            (1300, 6),
            (2200, 7),
            (4000, 9),
        ];
        let chosen = [(310, 0), (1290, 5), (2200, 7), (4000, 9)];
        assert_eq!(kept(&growing), chosen);
        let level = [
            (300, 4),
            (400, 9),
            (500, 7),
            (600, 8),
            (1500, -3),
            (1600, -6),
        ];
        let chosen = [(300, 4), (400, 9), (600, 8), (1500, -3), (1600, -6)];
        assert_eq!(kept(&level), chosen);
        assert_eq!(kept(&[]), []);
    }

    #[test]
    fn seconds_are_those_of_the_wall_clock() {
        let anchor = |ticks: u64| Anchor {
            ticks: Timestamp::from_raw(ticks),
            monotonic: MonotonicNs(ticks),
        };
        // The session begins at tick 1000, a quarter of a second after a border.
        let clock = SessionClock {
            kind: ClockKind::Monotonic,
            start: anchor(1000),
            start_unix: UnixNs(1_700_000_000_250_000_000),
        };
        let seconds = WallSeconds::of(&clock, &clock.converter(anchor(2000)));
        let second_at = |after_start: u64| seconds.second_of([1000 + after_start, 0, 0]);
        assert_eq!(second_at(0), second_at(749_999_999));
        assert_eq!(second_at(0) + 1, second_at(750_000_000));
        assert_eq!(second_at(0) + 2, second_at(1_750_000_000));
        assert_eq!(seconds.second_of([0; 3]), second_at(0));
    }

    /// The changes of a counter with these values, in milliseconds.
    fn changes(kind: CounterKind, values: &[(i64, i64)], end: (i64, i64)) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        let mut show = |point: CounterPoint| all.push((point.at_ns / 1_000_000, point.value));
        let point = |(at_ms, value): (i64, i64)| CounterPoint {
            at_ns: at_ms * 1_000_000,
            value,
            number: 0,
        };
        let mut changes = CounterChanges::new(kind, 10_000_000);
        for value in values {
            changes.value(point(*value), &mut show);
        }
        changes.end(end.0 * 1_000_000, Some(point(end)), &mut show);
        all
    }

    #[test]
    fn a_level_begins_with_its_value_and_a_rate_with_its_first_change() {
        let values = [(20, 3), (30, 8)];
        assert_eq!(
            changes(CounterKind::Level, &values, (50, 6)),
            [(20, 0), (20, 3), (30, 5), (50, -2)]
        );
        assert_eq!(
            changes(CounterKind::Rate, &values, (50, 9)),
            [(20, 0), (30, 5), (50, 1)]
        );
    }

    #[test]
    fn a_counter_without_values_over_time_has_its_present_one() {
        assert_eq!(
            changes(CounterKind::Level, &[], (70, 3)),
            [(10, 0), (10, 3), (70, 0)]
        );
        assert_eq!(changes(CounterKind::Rate, &[], (70, 3)), [(10, 0), (70, 0)]);
    }

    proptest! {
        #[test]
        fn the_last_and_the_highest_value_of_each_second_are_kept(
            steps in proptest::collection::vec((0_u64..700, -50_i64..50), 1..100)
        ) {
            let (mut at, mut value) = (0, 0);
            let values: Vec<_> = steps.iter().map(|(gap, change)| {
                at += gap;
                value += change;
                (at, value)
            }).collect();
            let kept = kept(&values);
            prop_assert!(kept.is_sorted_by_key(|(at, _)| *at));
            prop_assert_eq!(values.first(), kept.first());
            for second in 0..=SECONDS.second_of([at, 0, 0]) {
                let of = |all: &[(u64, i64)]| -> Vec<i64> {
                    let is_in_it = |at: u64| SECONDS.second_of([at, 0, 0]) == second;
                    let in_it = all.iter().filter(|(at, _)| is_in_it(*at));
                    in_it.map(|(_, value)| *value).collect()
                };
                let (all, kept) = (of(&values), of(&kept));
                prop_assert_eq!(all.last(), kept.last());
                prop_assert_eq!(all.iter().max(), kept.iter().max());
                prop_assert!(kept.len() <= 3);
            }
        }
    }
}
