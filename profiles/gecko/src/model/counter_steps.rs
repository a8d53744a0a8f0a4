//! Distributes the changes of a rate over the time in which they took place.
//!
//! Used by [`super::counters`]. A viewer divides each change by the time since the previous point
//! and joins the results with lines. So a rate is a sequence of steps without gaps. A step that is
//! longer than two ticks has a second point one tick after its beginning, which makes the line
//! between two steps at most two ticks long. Without it, a change after a pause would look like a
//! slow rise over the whole pause.
//!
//! A change may have taken place during earlier steps: the time of a group is recorded at the end
//! of a run. Therefore the latest [`MAX_PENDING`] steps are kept until the end. Invariants: the
//! sum of all changes is exact; memory does not grow with the number of changes.

use std::collections::VecDeque;

use super::counters::CounterPoint;

/// Maximum number of steps that a later change can still alter.
const MAX_PENDING: usize = 256;
/// Maximum number of points into which a change is divided, so that a selected part of a long step
/// has a part of its change.
const MAX_PARTS: i64 = 16;

/// A range of time with a constant rate. It begins where the previous one ends.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    until_ns: i64,
    change: i64,
    number: u64,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct RateSteps {
    tick_ns: i64,
    /// The beginning of the first pending step.
    begin_ns: i64,
    pending: VecDeque<Step>,
    /// Whether the last step that was shown has a change.
    is_changing: bool,
}

impl RateSteps {
    /// Steps from `begin_ns` on. Changes are recorded every `tick_ns`.
    pub(super) fn new(begin_ns: i64, tick_ns: i64) -> Self {
        Self {
            tick_ns: tick_ns.max(1),
            begin_ns,
            pending: VecDeque::new(),
            is_changing: false,
        }
    }

    /// Adds a change that took place evenly from `from_ns` to the time of `change`. The time before
    /// the first pending step does not count.
    pub(super) fn add(
        &mut self,
        from_ns: i64,
        change: CounterPoint,
        mut show: impl FnMut(CounterPoint),
    ) {
        let until_ns = change.at_ns;
        if change.value != 0 || change.number != 0 {
            let least = self.end_ns().max(self.begin_ns.saturating_add(1));
            self.extend(until_ns.max(least));
            let last_ns = self.end_ns().saturating_sub(1);
            let from_ns = from_ns.min(last_ns).max(self.begin_ns);
            self.split(from_ns);
            self.distribute(from_ns, change.value);
            if let Some(last) = self.pending.back_mut() {
                last.number = last.number.saturating_add(change.number);
            }
        } else {
            self.extend(until_ns);
        }
        while self.pending.len() > MAX_PENDING {
            self.show_first(&mut show);
        }
    }

    /// Shows all pending steps.
    pub(super) fn finish(mut self, mut show: impl FnMut(CounterPoint)) {
        while !self.pending.is_empty() {
            self.show_first(&mut show);
        }
    }

    fn end_ns(&self) -> i64 {
        self.pending
            .back()
            .map_or(self.begin_ns, |last| last.until_ns)
    }

    /// Appends time without changes, up to `until_ns`.
    fn extend(&mut self, until_ns: i64) {
        if until_ns <= self.end_ns() {
            return;
        }
        match self.pending.back_mut() {
            Some(last) if last.change == 0 && last.number == 0 => last.until_ns = until_ns,
            _ => self.pending.push_back(Step {
                until_ns,
                ..Step::default()
            }),
        }
    }

    /// The beginning of a pending step.
    fn begin_of(&self, index: usize) -> i64 {
        let before = index
            .checked_sub(1)
            .and_then(|before| self.pending.get(before));
        before.map_or(self.begin_ns, |before| before.until_ns)
    }

    /// The first pending step that ends after `at_ns`.
    fn step_at(&self, at_ns: i64) -> usize {
        self.pending.partition_point(|step| step.until_ns <= at_ns)
    }

    /// Divides the step that contains `at_ns`, unless it begins there.
    fn split(&mut self, at_ns: i64) {
        let index = self.step_at(at_ns);
        let begin_ns = self.begin_of(index);
        let Some(step) = self.pending.get_mut(index).filter(|_| begin_ns < at_ns) else {
            return;
        };
        let length_ns = step.until_ns.saturating_sub(begin_ns);
        let change = part(step.change, at_ns.saturating_sub(begin_ns), length_ns);
        step.change = step.change.saturating_sub(change);
        let first = Step {
            until_ns: at_ns,
            change,
            number: 0,
        };
        self.pending.insert(index, first);
    }

    /// Adds `change` to the steps from `from_ns` on, in proportion to their lengths.
    fn distribute(&mut self, from_ns: i64, change: i64) {
        let mut begin_ns = from_ns;
        let mut rest = change;
        let mut rest_ns = self.end_ns().saturating_sub(from_ns);
        let first = self.step_at(from_ns);
        for step in self.pending.iter_mut().skip(first) {
            let length_ns = step.until_ns.saturating_sub(begin_ns);
            let share = part(rest, length_ns, rest_ns);
            step.change = step.change.saturating_add(share);
            rest = rest.saturating_sub(share);
            rest_ns = rest_ns.saturating_sub(length_ns);
            begin_ns = step.until_ns;
        }
    }

    fn show_first(&mut self, show: &mut impl FnMut(CounterPoint)) {
        let begin_ns = self.begin_ns;
        let Some(step) = self.pending.pop_front() else {
            return;
        };
        self.begin_ns = step.until_ns;
        let was_changing = std::mem::replace(&mut self.is_changing, step.change != 0);
        let has_edge = was_changing || self.is_changing;
        let mut shown_ns = begin_ns;
        let mut rest = step.change;
        for until_ns in self.points(begin_ns, step, has_edge) {
            let rest_ns = step.until_ns.saturating_sub(shown_ns);
            let value = part(rest, until_ns.saturating_sub(shown_ns), rest_ns);
            rest = rest.saturating_sub(value);
            shown_ns = until_ns;
            let is_last = until_ns == step.until_ns;
            show(CounterPoint {
                at_ns: until_ns,
                value,
                number: if is_last { step.number } else { 0 },
            });
        }
    }

    /// The points of a step: its edge, the parts of a change, and its end.
    fn points(
        &self,
        begin_ns: i64,
        step: Step,
        has_edge: bool,
    ) -> impl Iterator<Item = i64> + use<> {
        let length_ns = step.until_ns.saturating_sub(begin_ns);
        let is_long = length_ns > self.tick_ns.saturating_mul(2);
        let edge_ns = (is_long && has_edge).then(|| begin_ns.saturating_add(self.tick_ns));
        let from_ns = edge_ns.unwrap_or(begin_ns);
        let rest_ns = step.until_ns.saturating_sub(from_ns);
        let parts = match step.change {
            0 => 1,
            _ if is_long => (rest_ns / self.tick_ns).clamp(1, MAX_PARTS),
            _ => 1,
        };
        let point = move |number| from_ns.saturating_add(part(rest_ns, number, parts));
        edge_ns.into_iter().chain((1..=parts).map(point))
    }
}

/// The part of a change that took place in the first `length_ns` of `of_ns`.
fn part(change: i64, length_ns: i64, of_ns: i64) -> i64 {
    let part = i128::from(change) * i128::from(length_ns) / i128::from(of_ns.max(1));
    i64::try_from(part).unwrap_or(change)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TICK: i64 = 10;

    /// Points as time and value. Changes are `(from, until, value)`.
    fn shown(begin_ns: i64, changes: &[(i64, i64, i64)], end_ns: i64) -> Vec<(i64, i64)> {
        let mut all = Vec::new();
        let mut steps = RateSteps::new(begin_ns, TICK);
        let mut show = |point: CounterPoint| all.push((point.at_ns, point.value));
        for (from, until, value) in changes {
            let change = CounterPoint {
                at_ns: *until,
                value: *value,
                number: 1,
            };
            steps.add(*from, change, &mut show);
        }
        let end = CounterPoint {
            at_ns: end_ns,
            ..CounterPoint::default()
        };
        steps.add(end_ns, end, &mut show);
        steps.finish(&mut show);
        all
    }

    #[test]
    fn a_rate_is_zero_one_tick_after_a_change_and_up_to_the_next_one() {
        let changes = [(0, 10, 5), (990, 1000, 7)];
        assert_eq!(
            shown(0, &changes, 2000),
            [(10, 5), (20, 0), (990, 0), (1000, 7), (1010, 0), (2000, 0)]
        );
    }

    #[test]
    fn a_change_that_took_long_is_a_rectangle() {
        assert_eq!(
            shown(0, &[(100, 250, 150)], 300),
            [
                vec![(100, 0)],
                (11..=25).map(|n| (n * 10, 10)).collect(),
                vec![(260, 0), (300, 0)]
            ]
            .concat()
        );
        let long = shown(0, &[(0, 10_000, 5_000)], 10_000);
        assert_eq!(long.len(), 1 + MAX_PARTS as usize);
        assert_eq!(long[0], (10, 5));
    }

    #[test]
    fn changes_of_the_same_time_are_added() {
        // Two threads work from 100 to 200 and from 110 to 210.
        assert_eq!(
            shown(0, &[(100, 200, 100), (110, 210, 100)], 210),
            [
                vec![(100, 0), (110, 10)],
                (12..=20).map(|n| (n * 10, 20)).collect(),
                vec![(210, 10)]
            ]
            .concat()
        );
    }

    #[test]
    fn a_change_from_before_the_first_pending_step_is_in_the_pending_ones() {
        assert_eq!(shown(50, &[(-100, 60, 160)], 60), [(60, 160)]);
        let many: Vec<_> = (0..1000).map(|n| (n * 10, n * 10 + 10, 1)).collect();
        let all = shown(0, &[many, vec![(0, 10_000, 500)]].concat(), 10_000);
        assert_eq!(all.iter().map(|(_, value)| value).sum::<i64>(), 1500);
        assert_eq!(all.len(), 1000);
    }

    proptest! {
        #[test]
        fn the_sum_is_exact_and_times_increase(
            changes in proptest::collection::vec((0..400_i64, 0..60_i64, -50..500_i64), 0..400)
        ) {
            let mut at = 0;
            let changes: Vec<_> = changes
                .into_iter()
                .map(|(took, gap, value)| {
                    at += gap;
                    (at - took, at, value)
                })
                .collect();
            let all = shown(0, &changes, at + 100);
            let sum: i64 = changes.iter().map(|(.., value)| value).sum();
            prop_assert_eq!(all.iter().map(|(_, value)| value).sum::<i64>(), sum);
            prop_assert!(all.first().is_none_or(|(at, _)| *at > 0));
            prop_assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "{:?}", all);
        }
    }
}
