//! Where the time went: the cost of every function itself, and with all that it calls.
//!
//! A sample costs its thread one interval, and the processor time since the sample before. The innermost function
//! has it as its own; every function on the stack has it in its total, once, however often it calls itself.
//! Invariant: memory grows with what the file holds of tables and samples, not with the numbers that stand there.

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;

use profiler_parent::internal::reading::{Table, WeightType, as_index};

/// What samples cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub(super) samples: f64,
    /// Those of them that say themselves how long they lasted, and the milliseconds that it was together.
    pub(super) timed: f64,
    pub(super) timed_ms: f64,
    /// In the unit of the profile.
    pub(super) cpu: f64,
}

impl Cost {
    /// By the clock, in milliseconds; a sample lasts one interval if it does not say how long.
    pub(super) fn wall_ms(&self, interval_ms: f64) -> f64 {
        (self.samples - self.timed) * interval_ms + self.timed_ms
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.timed += other.timed;
        self.timed_ms += other.timed_ms;
        self.cpu += other.cpu;
    }
}

/// A function's own cost, and that of all samples in which it appears.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Costs {
    pub(super) own: Cost,
    pub(super) total: Cost,
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Self) {
        self.own += other.own;
        self.total += other.total;
    }
}

/// A function and where it is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) library: Option<String>,
}

/// The samples of some threads, by the stack that they have.
#[derive(Debug, Default)]
pub(super) struct StackCosts {
    by_stack: Vec<Cost>,
    /// Of stacks that are beyond [`DENSE`], while it is not known how many there are: each sample may name any.
    beyond: BTreeMap<usize, Cost>,
    /// Of all samples, also those without a stack.
    pub(super) all: Cost,
}

/// So many stacks are kept side by side, 16 MiB, before it is known how many there are.
const DENSE: usize = 1 << 20;

/// Columns of a table of samples.
pub(super) const SAMPLES: [(&str, usize); 3] = [("stack", 0), ("threadCPUDelta", 3), ("weight", usize::MAX)];
/// Columns of a table of stacks.
pub(super) const STACKS: [(&str, usize); 3] = [("prefix", 0), ("frame", 1), ("prefixOffset", usize::MAX)];

impl StackCosts {
    /// The samples of a thread whose table of stacks has so many rows.
    pub(super) fn of(samples: &Table<3>, rows: usize) -> Self {
        let mut costs = Self::default();
        costs.add_below(samples, rows);
        // A stack that is not in the table has no frames.
        costs.beyond = BTreeMap::new();
        costs
    }

    /// Adds the samples of a thread whose table of stacks is yet to be read.
    pub(super) fn add(&mut self, samples: &Table<3>) {
        self.add_below(samples, DENSE);
    }

    fn add_below(&mut self, samples: &Table<3>, dense: usize) {
        let [stacks, cpu, weights] = &samples.0;
        for (row, stack) in stacks.iter().enumerate() {
            let number = |column: &Vec<f64>| column.get(row).copied().filter(|number| number.is_finite());
            // The first has nothing before it that its processor time could be counted from.
            let cpu = number(cpu).filter(|cpu| row > 0 && *cpu > 0.0).unwrap_or(0.0);
            let weight = number(weights).unwrap_or(1.0);
            let cost = match samples.1 {
                WeightType::Samples => Cost { samples: weight, cpu, ..Cost::default() },
                WeightType::Milliseconds => Cost { samples: 1.0, timed: 1.0, timed_ms: weight, cpu },
            };
            self.all += cost;
            let Some(stack) = as_index(*stack) else { continue };
            if self.by_stack.len() <= stack && stack < dense {
                self.by_stack.resize(stack + 1, Cost::default());
            }
            match self.by_stack.get_mut(stack) {
                Some(known) => *known += cost,
                None => *self.beyond.entry(stack).or_default() += cost,
            }
        }
    }

    /// Shows every frame that some sample of [`Self::of`] needs, and whether it is the innermost of some stack.
    pub(super) fn for_each_frame(&self, stacks: &Table<3>, mut show: impl FnMut(usize, bool)) {
        let mut is_caller = vec![false; self.by_stack.len()];
        for stack in (0..self.by_stack.len()).rev() {
            let costs = self.by_stack.get(stack).is_some_and(|cost| *cost != Cost::default());
            let calls = is_caller.get(stack).is_some_and(|calls| *calls);
            if let Some(frame) = stacks.index(1, stack).filter(|_| costs) {
                show(frame, true);
            }
            if let Some(frame) = stacks.index(1, stack).filter(|_| calls) {
                show(frame, false);
            }
            // A prefix is before its stack, so it is yet to come.
            let caller = prefix(stacks, stack).filter(|_| costs || calls);
            if let Some(caller) = caller.and_then(|caller| is_caller.get_mut(caller)) {
                *caller = true;
            }
        }
    }

    /// Adds up what each function costs, where `functions_of` says which functions are at a frame, the innermost
    /// first, and is told whether the frame is the innermost of its stack. Frames with none are passed over.
    pub(super) fn by_function<I: IntoIterator<Item = usize>>(
        &self,
        stacks: &Table<3>,
        functions_of: impl Fn(usize, bool) -> I,
    ) -> HashMap<usize, Costs> {
        let mut costs: HashMap<usize, (Costs, usize)> = HashMap::new();
        let beyond = self.beyond.iter().map(|(stack, cost)| (*stack, cost));
        for (stack, cost) in self.by_stack.iter().enumerate().chain(beyond) {
            if *cost == Cost::default() {
                continue;
            }
            let mut is_own = true;
            let all = frames(stacks, stack).flat_map(|(frame, is_leaf)| functions_of(frame, is_leaf));
            for function in all {
                let (known, last) = costs.entry(function).or_insert((Costs::default(), usize::MAX));
                if std::mem::take(&mut is_own) {
                    known.own += *cost;
                }
                if std::mem::replace(last, stack) != stack {
                    known.total += *cost;
                }
            }
        }
        costs.into_iter().map(|(function, (costs, _))| (function, costs)).collect()
    }
}

/// The stack of the callers of a stack. It comes before it, or there is none.
fn prefix(stacks: &Table<3>, stack: usize) -> Option<usize> {
    let by_offset = || stack.checked_sub(stacks.index(2, stack).filter(|offset| *offset > 0)?);
    stacks.index(0, stack).or_else(by_offset).filter(|prefix| *prefix < stack)
}

/// The frames of a stack, the innermost first, and whether each is that. As every prefix comes before its stack, this ends.
fn frames(stacks: &Table<3>, stack: usize) -> impl Iterator<Item = (usize, bool)> {
    let all = std::iter::successors(Some(stack), |stack| prefix(stacks, *stack));
    all.filter_map(move |at| Some((stacks.index(1, at)?, at == stack)))
}

/// The costs of all functions of a profile.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pub(super) costs: HashMap<Function, Costs>,
    pub(super) all: Cost,
}

impl Functions {
    /// Adds what a function costs in some process.
    pub(super) fn add(&mut self, function: Function, costs: Costs) {
        *self.costs.entry(function).or_default() += costs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL: f64 = f64::NAN;

    fn costs(samples: Table<3>, stacks: &Table<3>) -> HashMap<usize, Costs> {
        let mut by_stack = StackCosts::default();
        by_stack.add(&samples);
        by_stack.by_function(stacks, |frame, _| (frame != 9).then_some(frame))
    }

    #[test]
    fn a_function_that_calls_itself_is_counted_once() {
        // 1 calls 2, which calls itself; the frame 9 belongs to nobody.
        let prefixes = vec![NULL, 0.0, 1.0, 2.0];
        let offsets = vec![0.0, 1.0, 1.0, 1.0];
        let frames = vec![1.0, 2.0, 2.0, 9.0];
        let by_prefix = Table::of([prefixes, frames.clone(), vec![]]);
        let by_offset = Table::of([vec![], frames, offsets]);
        for stacks in [by_prefix, by_offset] {
            let samples = Table::of([vec![0.0, 3.0, 2.0, NULL], vec![100.0, 5.0, NULL, 7.0], vec![]]);
            let costs = costs(samples, &stacks);
            let cost = |samples, cpu| Cost { samples, cpu, ..Cost::default() };
            let outer = Costs { own: cost(1.0, 0.0), total: cost(3.0, 5.0) };
            let inner = Costs { own: cost(2.0, 5.0), total: cost(2.0, 5.0) };
            assert_eq!(costs, HashMap::from([(1, outer), (2, inner)]));
        }
    }

    #[test]
    fn tables_that_point_anywhere_end_the_walk() {
        let stacks = Table::of([vec![1.0, 0.0, 7.0], vec![0.0, 1.0, 2.0], vec![]]);
        let samples = Table::of([vec![0.0, 1.0, 2.0, 1e12, 50.0], vec![], vec![2.0, 1.0, 1.0]]);
        let costs = costs(samples, &stacks);
        assert_eq!(costs[&0].total.samples, 3.0, "its weight, and the caller's");
        assert_eq!(costs[&2].total.samples, 1.0);
    }

    #[test]
    fn what_a_sample_names_takes_no_memory_that_the_file_does_not_hold() {
        const FAR: usize = 268_435_455;
        let samples = Table::of([vec![FAR as f64, 1.0, 4e9, FAR as f64], vec![], vec![]]);
        let of_table = StackCosts::of(&samples, 2);
        assert_eq!((of_table.by_stack.len(), of_table.beyond.len(), of_table.all.samples), (2, 0, 4.0));
        let mut shared = StackCosts::default();
        shared.add(&samples);
        assert_eq!((shared.by_stack.len(), shared.beyond.len(), shared.all.samples), (2, 2, 4.0));
        assert_eq!(shared.beyond[&FAR].samples, 2.0, "counted, should the table be that long");
    }

    #[test]
    fn stacks_far_out_in_a_shared_table_are_counted_too() {
        let far = DENSE + 3;
        let (mut prefixes, mut frames) = (vec![NULL; far], vec![NULL; far]);
        (prefixes[0], frames[0]) = (NULL, 5.0);
        prefixes.push(0.0);
        frames.push(7.0);
        let costs =
            costs(Table::of([vec![far as f64], vec![], vec![]]), &Table::of([prefixes, frames, vec![]]));
        assert_eq!((costs[&7].own.samples, costs[&5].total.samples), (1.0, 1.0));
    }
}
