//! The cost of functions: of each function itself, and with all its callees.
//!
//! Used by `profiler info` and `profiler diff`. A sample costs its thread one interval, and the
//! processor time since the previous sample. This cost is the innermost function's own cost. It is
//! added once to the total of every function on the stack, even if the function calls itself.
//! Invariant: memory grows with the samples in the file and their stacks, not with the numbers in
//! the file.
//!
//! The samples can be divided into blocks, whose costs are added up separately: `profiler diff`
//! estimates from them how much the cost of a function varies.

use std::collections::HashMap;
use std::ops::AddAssign;

use profiler_parent::internal::reading::{
    self, FuncId, NodeId, RawThread, Tables, Thread, WeightType,
};

/// Columns of the samples.
const CPU: usize = 3;
const WEIGHT: usize = 4;

/// The cost of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) samples: f64,
    /// The number of samples with a duration of their own.
    pub(crate) timed: f64,
    /// The sum of these durations in milliseconds.
    pub(crate) timed_ms: f64,
    /// Processor time, in the profile's unit.
    pub(crate) cpu: f64,
}

impl Cost {
    /// Wall time in milliseconds; a sample without a duration lasts one interval.
    pub(crate) fn wall_ms(&self, interval_ms: f64) -> f64 {
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
pub(crate) struct Costs {
    pub(crate) own: Cost,
    pub(crate) total: Cost,
}

impl AddAssign for Costs {
    fn add_assign(&mut self, other: Self) {
        self.own += other.own;
        self.total += other.total;
    }
}

/// A function and its library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) library: Option<String>,
}

/// How the costs of functions are collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    /// The number of blocks, at least 1.
    pub(crate) blocks: usize,
    /// Whether functions with the same name in different libraries are different functions.
    pub(crate) by_library: bool,
}

/// The length of the slices of time that are assigned to the blocks in turn. Samples that are
/// closer to each other are similar, so they belong to the same block.
const SLICE_MS: f64 = 50.0;

impl Collection {
    /// The block of a sample.
    fn block(self, ms: f64) -> usize {
        let slice = (ms / SLICE_MS).floor() as i64;
        let blocks = i64::try_from(self.blocks).unwrap_or(i64::MAX);
        usize::try_from(slice.rem_euclid(blocks)).unwrap_or(0)
    }

    /// The costs of the different stacks of a thread in each block.
    fn stacks(self, thread: &Thread<'_>) -> Vec<StackCost> {
        let times = thread.raw.sample_times_ms();
        let samples = thread.nodes.iter().zip(times).enumerate();
        let mut stacks: Vec<StackCost> = samples
            .map(|(row, (stack, ms))| StackCost {
                block: self.block(ms),
                stack: *stack,
                cost: cost_of(thread.raw, row),
            })
            .collect();
        stacks.sort_by_key(|stack| (stack.block, stack.stack));
        stacks.dedup_by(|next, kept| {
            let is_same = (next.block, next.stack) == (kept.block, kept.stack);
            if is_same {
                kept.cost += next.cost;
            }
            is_same
        });
        stacks
    }
}

/// The cost of the samples of one thread with the same stack.
#[derive(Clone, Copy, Debug)]
struct StackCost {
    block: usize,
    stack: Option<NodeId>,
    cost: Cost,
}

/// The cost of a sample.
fn cost_of(thread: &RawThread, row: usize) -> Cost {
    let samples = &thread.samples;
    let number = |column| Some(samples.number(column, row)).filter(|number| number.is_finite());
    // The first sample has no predecessor from which its processor time could be counted.
    let cpu = number(CPU)
        .filter(|cpu| row > 0 && *cpu > 0.0)
        .unwrap_or(0.0);
    let weight = number(WEIGHT).unwrap_or(1.0);
    match samples.1 {
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
    }
}

/// The number of a function in a table of functions.
#[derive(Clone, Copy, Debug)]
enum Lookup {
    /// No sample has needed it so far.
    Unknown,
    /// The function has no name.
    Nameless,
    Number(usize),
}

/// The costs of the functions of a profile, or of some of its threads.
#[derive(Debug)]
pub(crate) struct Functions {
    collection: Collection,
    numbers: HashMap<Function, usize>,
    /// The blocks of the first function, of the second, and so on.
    costs: Vec<Costs>,
    /// For each function, the number of the last stack on which it was found.
    last_stack: Vec<u64>,
    stacks: u64,
    /// The costs of all samples by block, including those without a stack.
    all: Vec<Cost>,
    /// The numbers of the functions in the tables that threads share.
    shared: Vec<Lookup>,
}

impl Functions {
    /// The initial state: no samples.
    pub(crate) fn new(collection: Collection) -> Self {
        Self {
            collection,
            numbers: HashMap::new(),
            costs: Vec::new(),
            last_stack: Vec::new(),
            stacks: 0,
            all: vec![Cost::default(); collection.blocks],
            shared: Vec::new(),
        }
    }

    /// Adds the samples of a thread. All threads must be of the same profile.
    pub(crate) fn add(&mut self, thread: &Thread<'_>) {
        let mut lookups = match thread.has_own_tables {
            true => Vec::new(),
            false => std::mem::take(&mut self.shared),
        };
        lookups.resize(thread.tables.func_count(), Lookup::Unknown);
        for stack in self.collection.stacks(thread) {
            self.add_stack(thread.tables, &stack, &mut lookups);
        }
        if !thread.has_own_tables {
            self.shared = lookups;
        }
    }

    fn add_stack(&mut self, tables: &Tables, stack: &StackCost, lookups: &mut [Lookup]) {
        if let Some(all) = self.all.get_mut(stack.block) {
            *all += stack.cost;
        }
        self.stacks += 1;
        let mut is_own = true;
        // A stack that is not in the table has no functions.
        for func in stack
            .stack
            .into_iter()
            .flat_map(|node| tables.functions(node))
        {
            let Some(number) = self.number(tables, func, lookups) else {
                continue;
            };
            let place = number * self.collection.blocks + stack.block;
            let (Some(costs), Some(last)) =
                (self.costs.get_mut(place), self.last_stack.get_mut(number))
            else {
                continue;
            };
            if std::mem::take(&mut is_own) {
                costs.own += stack.cost;
            }
            if std::mem::replace(last, self.stacks) != self.stacks {
                costs.total += stack.cost;
            }
        }
    }

    fn number(&mut self, tables: &Tables, func: FuncId, lookups: &mut [Lookup]) -> Option<usize> {
        let lookup = lookups.get_mut(func.0 as usize)?;
        if matches!(lookup, Lookup::Unknown) {
            *lookup = tables
                .function(func)
                .map_or(Lookup::Nameless, |function| self.intern(function));
        }
        match lookup {
            Lookup::Number(number) => Some(*number),
            _ => None,
        }
    }

    fn intern(&mut self, function: reading::Function<'_>) -> Lookup {
        let library = function.library.filter(|_| self.collection.by_library);
        let function = Function {
            name: function.name.to_owned(),
            library: library.map(str::to_owned),
        };
        let next = self.last_stack.len();
        let number = *self.numbers.entry(function).or_insert(next);
        if number == next {
            self.last_stack.push(0);
            let costs = self.costs.len() + self.collection.blocks;
            self.costs.resize(costs, Costs::default());
        }
        Lookup::Number(number)
    }

    /// The costs of all samples by block, including those without a stack.
    pub(crate) fn all(&self) -> &[Cost] {
        &self.all
    }

    /// The functions on the stacks of samples, with their costs by block.
    pub(crate) fn into_costs(self) -> impl Iterator<Item = (Function, Vec<Costs>)> {
        let Self {
            collection,
            numbers,
            costs,
            ..
        } = self;
        numbers.into_iter().filter_map(move |(function, number)| {
            let first = number * collection.blocks;
            let costs = costs.get(first..first + collection.blocks)?;
            let has_cost = costs.iter().any(|costs| *costs != Costs::default());
            has_cost.then(|| (function, costs.to_vec()))
        })
    }
}

/// The sum of costs.
pub(crate) fn sum<C: AddAssign + Default + Copy>(costs: &[C]) -> C {
    let mut sum = C::default();
    costs.iter().for_each(|cost| sum += *cost);
    sum
}
