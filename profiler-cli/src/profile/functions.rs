//! The cost of functions: of each function itself, and with all its callees.
//!
//! Used by `profiler info`. A sample costs its thread one interval, and the processor time since
//! the previous sample. This cost is the innermost function's own cost. It is added once to the
//! total of every function on the stack, even if the function calls itself. Invariant: memory grows
//! with the tables and samples in the file, not with the numbers in them.

use std::collections::HashMap;
use std::ops::AddAssign;

use profiler_parent::internal::reading::{self, FuncId, NodeId, Tables, Thread, WeightType};

/// Columns of the samples.
const CPU: usize = 3;
const WEIGHT: usize = 4;

/// The cost of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cost {
    pub(super) samples: f64,
    /// The number of samples with a duration of their own.
    pub(super) timed: f64,
    /// The sum of these durations in milliseconds.
    pub(super) timed_ms: f64,
    /// Processor time, in the profile's unit.
    pub(super) cpu: f64,
}

impl Cost {
    /// Wall time in milliseconds; a sample without a duration lasts one interval.
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

/// A function and its library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) library: Option<String>,
}

/// The samples of threads with the same tables, by their stack.
#[derive(Debug)]
pub(super) struct StackCosts {
    /// Indexed by node.
    by_stack: Vec<Cost>,
    /// The cost of all samples, including those without a stack.
    all: Cost,
}

impl StackCosts {
    /// The initial state for stacks in these tables: no samples.
    pub(super) fn new(tables: &Tables) -> Self {
        Self {
            by_stack: vec![Cost::default(); tables.node_count()],
            all: Cost::default(),
        }
    }

    /// Adds the samples of a thread.
    pub(super) fn add(&mut self, thread: &Thread<'_>) {
        let samples = &thread.raw.samples;
        for (row, node) in thread.nodes.iter().enumerate() {
            let number =
                |column| Some(samples.number(column, row)).filter(|number| number.is_finite());
            // The first sample has no predecessor from which its processor time could be counted.
            let cpu = number(CPU)
                .filter(|cpu| row > 0 && *cpu > 0.0)
                .unwrap_or(0.0);
            let weight = number(WEIGHT).unwrap_or(1.0);
            let cost = match samples.1 {
                WeightType::Samples => Cost {
                    samples: weight,
                    cpu,
                    ..Cost::default()
                },
                WeightType::Milliseconds => Cost {
                    samples: 1.0,
                    timed: 1.0,
                    timed_ms: weight,
                    cpu,
                },
            };
            self.all += cost;
            // A stack that is not in the table has no frames.
            if let Some(known) = node.and_then(|node| self.by_stack.get_mut(node.0 as usize)) {
                *known += cost;
            }
        }
    }
}

/// The costs of all functions of a profile.
#[derive(Debug, Default)]
pub(super) struct Functions {
    numbers: HashMap<Function, usize>,
    /// Indexed by the function's number.
    costs: Vec<Costs>,
    pub(super) all: Cost,
}

impl Functions {
    /// Adds the costs of the functions in `tables`. Functions with the same name and library are
    /// one: on a stack they count once.
    pub(super) fn add(&mut self, tables: &Tables, costs: &StackCosts) {
        self.all += costs.all;
        let funcs = (0..tables.func_count()).map(|func| u32::try_from(func).ok().map(FuncId));
        let numbers: Vec<Option<usize>> = funcs
            .map(|func| self.number(tables.function(func?)?))
            .collect();
        let mut last = vec![None; self.costs.len()];
        for (stack, cost) in (0..)
            .zip(&costs.by_stack)
            .filter(|(_, cost)| **cost != Cost::default())
        {
            let mut is_own = true;
            let number = |func: FuncId| *numbers.get(func.0 as usize)?;
            for number in tables.functions(NodeId(stack)).filter_map(number) {
                let (Some(costs), Some(last)) = (self.costs.get_mut(number), last.get_mut(number))
                else {
                    continue;
                };
                if std::mem::take(&mut is_own) {
                    costs.own += *cost;
                }
                if last.replace(stack) != Some(stack) {
                    costs.total += *cost;
                }
            }
        }
    }

    fn number(&mut self, function: reading::Function<'_>) -> Option<usize> {
        let function = Function {
            name: function.name.to_owned(),
            library: function.library.map(str::to_owned),
        };
        let next = self.costs.len();
        let number = *self.numbers.entry(function).or_insert(next);
        if number == next {
            self.costs.push(Costs::default());
        }
        Some(number)
    }

    /// Every function on the stack of a sample, with its costs.
    pub(super) fn into_costs(self) -> Vec<(Function, Costs)> {
        let Self { numbers, costs, .. } = self;
        let costs = numbers
            .into_iter()
            .filter_map(|(function, at)| Some((function, *costs.get(at)?)));
        costs
            .filter(|(_, costs)| *costs != Costs::default())
            .collect()
    }
}
