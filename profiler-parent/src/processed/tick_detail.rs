//! How much a profile shows of what samplers record at every tick: the values of counters, and
//! their own cost.
//!
//! Set by the capture; used in the first pass and where counters are written. A profile for viewers
//! has every tick. A batch of a pusher has the values of each second, because no engine takes more:
//! with an interval of 100 ms this is a quarter of the profile's bytes. Invariant: the last value
//! of a counter is in both, and the highest one, too.

use profiler_core::internal::profile::model::{CounterKind, CounterPoint};

/// How much a profile shows of each tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TickDetail {
    /// Every value, and the cost of each tick.
    #[default]
    EveryTick,
    /// Of each second, the last and the highest value of a counter. The cost of ticks is left out,
    /// and how a counter is drawn, except its unit.
    EachSecond,
}

/// The value of a counter in a pool: time, value as unsigned bits, and number of changes.
pub(super) type CounterRow = [u64; 3];

/// Chooses the last and the highest of a counter's values in each second.
#[derive(Debug, Default)]
pub(super) struct SecondFilter {
    /// The last value of the present second.
    last: Option<CounterRow>,
    /// The highest value of the present second, if later ones are lower.
    highest: Option<CounterRow>,
}

impl SecondFilter {
    /// Adds the next value. Returns the values to keep of the second before it.
    pub(super) fn add(
        &mut self,
        row: CounterRow,
        second: u64,
    ) -> impl Iterator<Item = CounterRow> + use<> {
        let second_of = |[at, ..]: CounterRow| at / second.max(1);
        let ended = match self.last {
            Some(last) if second_of(last) != second_of(row) => Some(self.end_second()),
            Some(last) if value_of(last) > value_of(row) && self.is_highest(last) => {
                self.highest = Some(last);
                None
            }
            _ => None,
        };
        self.last = Some(row);
        ended.into_iter().flatten()
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
/// [`CounterPoints`](profiler_core::internal::profile::model::CounterPoints), it does not divide
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
    use proptest::prelude::*;

    use super::*;

    /// The values that are kept, with seconds of a thousand.
    fn kept(values: &[(u64, i64)]) -> Vec<(u64, i64)> {
        let mut filter = SecondFilter::default();
        let mut kept = Vec::new();
        for (at, value) in values {
            kept.extend(filter.add([*at, value.cast_unsigned(), 0], 1000));
        }
        kept.extend(filter.end_second());
        let plain = kept.into_iter().map(|row| (row[0], value_of(row)));
        plain.collect()
    }

    #[test]
    fn a_second_has_its_last_and_its_highest_value() {
        let growing = [(0, 0), (100, 1), (900, 5), (1100, 6), (1900, 7), (4000, 9)];
        assert_eq!(kept(&growing), [(900, 5), (1900, 7), (4000, 9)]);
        let level = [(0, 4), (100, 9), (200, 7), (300, 8), (1500, -3), (1600, -6)];
        assert_eq!(kept(&level), [(100, 9), (300, 8), (1500, -3), (1600, -6)]);
        assert_eq!(kept(&[]), []);
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
            for second in 0..=at / 1000 {
                let of = |all: &[(u64, i64)]| -> Vec<i64> {
                    let in_it = all.iter().filter(|(at, _)| at / 1000 == second);
                    in_it.map(|(_, value)| *value).collect()
                };
                let (all, kept) = (of(&values), of(&kept));
                prop_assert_eq!(all.last(), kept.last());
                prop_assert_eq!(all.iter().max(), kept.iter().max());
                prop_assert!(kept.len() <= 2);
            }
        }
    }
}
