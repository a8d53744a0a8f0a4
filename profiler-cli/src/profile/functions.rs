//! The cost of functions: of each function itself, and with all its callees.
//!
//! Used by `profiler info` and `profiler diff`. The cost of a sample is the time that it stands
//! for, and the part of this time in which the thread ran. This cost is the innermost function's own
//! cost. It is added once to the total of every function on the stack, even if the function calls
//! itself. The cost of a sample without a stack is in the total of all samples, and in no function.
//! Invariants: memory grows with the samples in the file and their stacks, not with the numbers in
//! the file; time grows with the samples and the table of stacks, not with the depth of each sample.
//!
//! The samples can be divided into blocks, whose costs are added up separately: `profiler diff`
//! estimates from them how much the cost of a function varies. A sample that lasts longer than a
//! slice of time, such as a long wait, is divided among the slices.

use std::collections::{BTreeMap, HashMap};

use profiler_export::call_tree::CallTree;
use profiler_reader as reading;
use profiler_reader::{NodeId, Pauses, Survey, Tables, Thread, WeightType};

use super::blocks::Blocks;
use super::call_paths::CallPaths;
use super::cost::{Cost, Costs};
use super::stack_sums::StackSums;

/// A function and its library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) library: Option<String>,
}

/// How the costs of functions are collected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Collection {
    /// How the samples are divided into blocks.
    pub(crate) blocks: Blocks,
    /// Whether functions with the same name in different libraries are different functions.
    pub(crate) by_library: bool,
    /// Whether the call tree is collected, too.
    pub(crate) with_tree: bool,
}

impl Collection {
    /// Adds the samples of a thread that are `wanted`; returns their cost.
    fn add(
        self,
        (thread, wanted): (&Thread<'_>, &dyn Fn(f64) -> bool),
        survey: &Survey,
        to: &mut StackCosts,
    ) -> Cost {
        to.begin(thread.tables);
        let begins = thread.raw.samples.1 == WeightType::Milliseconds;
        let times = thread.raw.sample_times_ms();
        let pauses = Pauses::of_thread(thread, survey);
        let walls = thread.raw.wall_times_ns(&survey.meta, &pauses);
        let busy = thread.raw.busy_times_ns(&survey.meta, &walls);
        let mut all = Cost::default();
        let mut last: Option<(StackInBlock, Cost)> = None;
        for (row, ((stack, ms), wall)) in thread.nodes.iter().zip(times).zip(walls).enumerate() {
            if !wanted(ms) {
                continue;
            }
            let busy = busy.as_ref().and_then(|busy| busy.get(row).copied());
            let cost = Cost::of_sample(thread.raw, row, wall, busy.unwrap_or(0));
            all += cost;
            let start = if begins { ms } else { ms - cost.wall_ms };
            self.blocks.divide((start, ms), cost, |block, cost| {
                let place = (block, *stack);
                // Samples in succession often have the same stack.
                match &mut last {
                    Some((known, sum)) if *known == place => *sum += cost,
                    _ => {
                        if let Some((place, cost)) = last.replace((place, cost)) {
                            to.add(place, cost);
                        }
                    }
                }
            });
        }
        if let Some((place, cost)) = last {
            to.add(place, cost);
        }
        all
    }
}

/// A block, and a stack; `None` for samples without one.
type StackInBlock = (usize, Option<NodeId>);

/// The costs of the different stacks of threads with the same tables.
#[derive(Debug, Default)]
struct StackCosts {
    costs: Vec<StackCost>,
    /// By stack of the tables: the index of its latest cost.
    last: Vec<Option<u32>>,
    /// The index of the latest cost of samples whose stack is not in the tables.
    last_without_stack: Option<u32>,
}

/// The cost of a stack in a block.
#[derive(Debug)]
struct StackCost {
    place: StackInBlock,
    cost: Cost,
    /// The index of the cost of the same stack in another block.
    other: Option<u32>,
}

impl StackCosts {
    /// Prepares for a thread with these tables.
    fn begin(&mut self, tables: &Tables) {
        self.last.resize(tables.node_count(), None);
    }

    fn add(&mut self, place: StackInBlock, cost: Cost) {
        let (block, stack) = place;
        let of_stack = stack.and_then(|stack| self.last.get_mut(stack.0 as usize));
        let stack = stack.filter(|_| of_stack.is_some());
        let last = of_stack.unwrap_or(&mut self.last_without_stack);
        let mut at = *last;
        while let Some(known) = at.and_then(|at| self.costs.get_mut(at as usize)) {
            if known.place.0 == block {
                known.cost += cost;
                return;
            }
            at = known.other;
        }
        let Ok(next) = u32::try_from(self.costs.len()) else {
            return;
        };
        let place = (block, stack);
        let other = last.replace(next);
        self.costs.push(StackCost { place, cost, other });
    }
}

/// The costs of the functions of a profile, or of some of its threads.
#[derive(Debug)]
pub(crate) struct Functions {
    collection: Collection,
    numbers: HashMap<Function, usize>,
    /// The blocks of the first function, of the second, and so on.
    costs: Vec<Costs>,
    /// The costs of all samples by block, including those without a stack.
    all: Vec<Cost>,
    /// The cost of the samples without a stack.
    without_stack: Cost,
    /// The costs of the stacks in the tables that threads share.
    shared: StackCosts,
    tree: CallTree<usize, Cost>,
}

impl Functions {
    /// The initial state: no samples.
    pub(crate) fn new(collection: Collection) -> Self {
        Self {
            collection,
            numbers: HashMap::new(),
            costs: Vec::new(),
            all: vec![Cost::default(); collection.blocks.count],
            without_stack: Cost::default(),
            shared: StackCosts::default(),
            tree: CallTree::default(),
        }
    }

    /// Adds the samples of a thread. All threads must be of the same profile, which `survey`
    /// describes.
    pub(crate) fn add(&mut self, thread: &Thread<'_>, survey: &Survey) {
        self.add_wanted((thread, &|_| true), survey);
    }

    /// Like [`Self::add`], for the samples whose time in milliseconds is wanted. Returns their
    /// cost.
    pub(crate) fn add_wanted(
        &mut self,
        (thread, wanted): (&Thread<'_>, &dyn Fn(f64) -> bool),
        survey: &Survey,
    ) -> Cost {
        let of = (thread, wanted);
        if !thread.has_own_tables {
            return self.collection.add(of, survey, &mut self.shared);
        }
        let mut stacks = StackCosts::default();
        let all = self.collection.add(of, survey, &mut stacks);
        self.add_stacks(thread.tables, stacks);
        all
    }

    /// Completes the costs, after the last thread. `tables` are those that the threads share.
    pub(crate) fn finish(&mut self, tables: &Tables) {
        let stacks = std::mem::take(&mut self.shared);
        self.add_stacks(tables, stacks);
    }

    fn add_stacks(&mut self, tables: &Tables, stacks: StackCosts) {
        // The order determines how sums are rounded.
        let mut stacks = stacks.costs;
        stacks.sort_unstable_by_key(|stack| stack.place);
        let numbers = self.numbers_of(tables, &stacks);
        let mut sums = StackSums::new(tables, &numbers);
        let mut of_all_blocks: BTreeMap<NodeId, Cost> = BTreeMap::new();
        for of_block in stacks.chunk_by(|one, other| one.place.0 == other.place.0) {
            let block = of_block.first().map_or(0, |stack| stack.place.0);
            for StackCost { place, cost, .. } in of_block {
                if let Some(all) = self.all.get_mut(block) {
                    *all += *cost;
                }
                let Some(stack) = place.1 else {
                    self.without_stack += *cost;
                    continue;
                };
                if self.collection.with_tree {
                    *of_all_blocks.entry(stack).or_default() += *cost;
                }
                if let Some(number) = sums.add(stack, *cost) {
                    self.change(number, block, |costs| costs.own += *cost);
                }
            }
            sums.take(|number, total| self.change(number, block, |costs| costs.total += total));
        }
        let mut paths = CallPaths::new(tables, &numbers);
        for (stack, cost) in of_all_blocks {
            paths.add(&mut self.tree, stack, cost);
        }
    }

    /// Changes the costs of a function in a block.
    fn change(&mut self, number: usize, block: usize, change: impl FnOnce(&mut Costs)) {
        let place = number * self.collection.blocks.count + block;
        if let Some(costs) = self.costs.get_mut(place) {
            change(costs);
        }
    }

    /// The numbers of the functions on these stacks, by function of the tables.
    fn numbers_of(&mut self, tables: &Tables, stacks: &[StackCost]) -> Vec<Option<usize>> {
        let mut numbers = vec![None; tables.func_count()];
        let mut is_known = vec![false; tables.node_count()];
        for stack in stacks.iter().filter_map(|stack| stack.place.1) {
            for (node, func) in tables.named_nodes(stack) {
                let known = is_known.get_mut(node.0 as usize);
                if known.is_none_or(|known| std::mem::replace(known, true)) {
                    break; // and so are its callers
                }
                let number = numbers.get_mut(func.0 as usize);
                if let Some(number @ None) = number {
                    *number = tables.function(func).map(|function| self.number(function));
                }
            }
        }
        numbers
    }

    fn number(&mut self, function: reading::Function<'_>) -> usize {
        let library = function.library.filter(|_| self.collection.by_library);
        let function = Function {
            name: function.name.to_owned(),
            library: library.map(str::to_owned),
        };
        let next = self.numbers.len();
        let number = *self.numbers.entry(function).or_insert(next);
        if number == next {
            let costs = self.costs.len() + self.collection.blocks.count;
            self.costs.resize(costs, Costs::default());
        }
        number
    }

    /// The costs of all samples by block, including those without a stack.
    pub(crate) fn all(&self) -> &[Cost] {
        &self.all
    }

    /// The cost of all samples without a stack.
    pub(crate) const fn without_stack(&self) -> Cost {
        self.without_stack
    }

    /// Takes the call tree, and the names of its functions by number. Empty unless it is collected.
    pub(crate) fn take_tree(&mut self) -> (CallTree<usize, Cost>, Vec<String>) {
        let mut names = vec![String::new(); self.numbers.len()];
        for (function, number) in &self.numbers {
            if let Some(name) = names.get_mut(*number).filter(|_| self.collection.with_tree) {
                name.clone_from(&function.name);
            }
        }
        (std::mem::take(&mut self.tree), names)
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
            let first = number * collection.blocks.count;
            let costs = costs.get(first..first + collection.blocks.count)?;
            let has_cost = costs.iter().any(|costs| *costs != Costs::default());
            has_cost.then(|| (function, costs.to_vec()))
        })
    }
}
