//! The tree of functions that a flame graph shows, merged from the stacks of all processes.
//!
//! Made for each request. Pure: the input are trees of frames with the time of each node.
//! Invariants: the total of a node is its own time and the totals of its children; the total of the
//! root is the time of all stacks; a node's caller has a smaller number. The size of a tree is
//! bounded, because stacks are foreign data: the time of a function that does not fit stays with
//! its caller.

use std::collections::HashMap;

use serde::Serialize;

use super::frames::{FrameTable, FunctionNumber};
use super::stack_tree::{NodeNumber, StackTree};

/// Time in the window, and in the window before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Values {
    pub(super) now_ns: u64,
    pub(super) before_ns: u64,
}

impl Values {
    /// Adds time.
    pub(super) fn add(&mut self, other: Self) {
        self.now_ns = self.now_ns.saturating_add(other.now_ns);
        self.before_ns = self.before_ns.saturating_add(other.before_ns);
    }

    /// Whether there is no time in either window.
    pub(super) const fn is_zero(self) -> bool {
        self.now_ns == 0 && self.before_ns == 0
    }
}

/// The process that has the most time in a node. Processes are added one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct TopProcess {
    added: u32,
    added_ns: u64,
    top: u32,
    top_ns: u64,
}

impl TopProcess {
    fn add(&mut self, process: u32, ns: u64) {
        if self.added != process {
            (self.added, self.added_ns) = (process, 0);
        }
        self.added_ns = self.added_ns.saturating_add(ns);
        if self.added_ns > self.top_ns {
            (self.top, self.top_ns) = (process, self.added_ns);
        }
    }
}

/// A function with its callers.
#[derive(Clone, Copy, Debug)]
struct FunctionNode {
    caller: u32,
    function: FunctionNumber,
    own: Values,
    total: Values,
    process: TopProcess,
}

/// The node that stands for all stacks.
const ROOT: u32 = 0;
const NO_FUNCTION: FunctionNumber = FunctionNumber(u32::MAX);
const NOT_PLACED: u32 = u32::MAX;
/// Limit on the nodes of a tree.
const MOST_TREE_NODES: usize = 1 << 19;
/// Limit on the steps from a function to its caller in which a tree is inverted.
const MOST_STEPS: usize = 1 << 22;

/// The own time of a node in one process.
#[derive(Clone, Copy, Debug)]
struct OwnTime {
    process: u32,
    place: u32,
    own: Values,
}

/// A tree of functions.
#[derive(Debug)]
pub(super) struct FunctionTree {
    nodes: Vec<FunctionNode>,
    children: HashMap<(u32, FunctionNumber), u32>,
    /// The own time of all nodes, one process after the other.
    own: Vec<OwnTime>,
    most_nodes: usize,
    /// Number of times that a function did not fit.
    left_out: usize,
}

impl FunctionTree {
    /// A tree without time.
    pub(super) fn new() -> Self {
        Self::with_most(MOST_TREE_NODES)
    }

    fn with_most(most_nodes: usize) -> Self {
        let root = FunctionNode {
            caller: ROOT,
            function: NO_FUNCTION,
            own: Values::default(),
            total: Values::default(),
            process: TopProcess::default(),
        };
        Self {
            nodes: vec![root],
            children: HashMap::new(),
            own: Vec::new(),
            most_nodes,
            left_out: 0,
        }
    }

    /// Adds the stacks of a process. `own` has the time of each node of its tree, and `stackless`
    /// the time of samples without a stack.
    pub(super) fn add_process(
        &mut self,
        process: u32,
        tree: &StackTree,
        frames: &FrameTable,
        own: &[Values],
        stackless: Values,
    ) {
        let totals = totals(tree, own);
        let mut places = vec![NOT_PLACED; tree.len()];
        for (number, (caller, frame)) in tree.iter().enumerate() {
            let total = totals.get(number).copied().unwrap_or_default();
            if total.is_zero() {
                continue;
            }
            let mut place = match places.get(caller.0 as usize) {
                Some(place) => *place,
                None => {
                    self.add(ROOT, total, process);
                    ROOT
                }
            };
            for function in frames.functions_of(frame) {
                let Some(child) = self.child(place, *function) else {
                    break;
                };
                place = child;
                self.add(place, total, process);
            }
            let own = own.get(number).copied().unwrap_or_default();
            self.add_own(place, own, process);
            if let Some(known) = places.get_mut(number) {
                *known = place;
            }
        }
        if !stackless.is_zero() {
            self.add(ROOT, stackless, process);
            let place = self.child(ROOT, frames.no_stack());
            if let Some(place) = place {
                self.add(place, stackless, process);
            }
            self.add_own(place.unwrap_or(ROOT), stackless, process);
        }
    }

    /// The same time by callee: the children of a node are the callers of its function.
    pub(super) fn inverted(&self) -> Self {
        self.inverted_within(MOST_STEPS)
    }

    /// Inverts in at most this many steps; the time of what remains stays where it is then.
    fn inverted_within(&self, most_steps: usize) -> Self {
        let mut inverted = Self::with_most(self.most_nodes);
        inverted.left_out = self.left_out;
        let mut steps = most_steps;
        for own in self.own_by_place() {
            inverted.add(ROOT, own.own, own.process);
            let mut place = ROOT;
            let mut at = self.node(own.place);
            while at.function != NO_FUNCTION {
                let Some(left) = steps.checked_sub(1) else {
                    inverted.left_out += 1;
                    break;
                };
                steps = left;
                let Some(caller) = inverted.child(place, at.function) else {
                    break;
                };
                place = caller;
                inverted.add(place, own.own, own.process);
                at = self.node(at.caller);
            }
            inverted.add_own(place, own.own, own.process);
        }
        inverted
    }

    /// The own time of all nodes, one process after the other; each node of a process once.
    fn own_by_place(&self) -> Vec<OwnTime> {
        let mut all = self.own.clone();
        all.sort_by_key(|own| (own.process, own.place));
        all.dedup_by(|next, kept| {
            let is_same = (next.process, next.place) == (kept.process, kept.place);
            if is_same {
                kept.own.add(next.own);
            }
            is_same
        });
        all
    }

    /// The time of all stacks.
    pub(super) fn total(&self) -> Values {
        self.node(ROOT).total
    }

    /// The node at the end of a path of functions from the root; `None` if there is none.
    pub(super) fn find(&self, path: &[FunctionNumber]) -> Option<u32> {
        path.iter().try_fold(ROOT, |place, function| {
            self.children.get(&(place, *function)).copied()
        })
    }

    /// The least time of a node, for at most `most` nodes below `start` and none without time.
    pub(super) fn least_for(&self, start: u32, most: usize) -> u64 {
        let mut is_below = vec![false; self.nodes.len()];
        let mut totals = Vec::new();
        for (number, node) in (0..).zip(&self.nodes) {
            let below = number == start || is_below.get(node.caller as usize) == Some(&true);
            if let Some(place) = is_below.get_mut(number as usize).filter(|_| below) {
                *place = true;
                totals.push(node.total.now_ns);
            }
        }
        if totals.len() <= most {
            return 1;
        }
        let (_, nth, _) = totals.select_nth_unstable_by(most, |one, other| other.cmp(one));
        nth.saturating_add(1)
    }

    /// The functions of all nodes with at least this time. A function may occur several times.
    pub(super) fn functions_with(&self, least_ns: u64) -> impl Iterator<Item = FunctionNumber> {
        let large = self.nodes.iter().skip(1);
        let large = large.filter(move |node| node.total.now_ns >= least_ns);
        large.map(|node| node.function)
    }

    fn node(&self, number: u32) -> FunctionNode {
        let known = self.nodes.get(number as usize);
        known.copied().unwrap_or(FunctionNode {
            caller: ROOT,
            function: NO_FUNCTION,
            own: Values::default(),
            total: Values::default(),
            process: TopProcess::default(),
        })
    }

    fn add(&mut self, place: u32, total: Values, process: u32) {
        if let Some(node) = self.nodes.get_mut(place as usize) {
            node.total.add(total);
            node.process.add(process, total.now_ns);
        }
    }

    fn add_own(&mut self, place: u32, own: Values, process: u32) {
        if own.is_zero() {
            return;
        }
        if let Some(node) = self.nodes.get_mut(place as usize) {
            node.own.add(own);
            match self.own.last_mut() {
                Some(last) if (last.process, last.place) == (process, place) => last.own.add(own),
                _ => self.own.push(OwnTime {
                    process,
                    place,
                    own,
                }),
            }
        }
    }

    /// The node of a function that `caller` calls; `None` if it does not fit.
    fn child(&mut self, caller: u32, function: FunctionNumber) -> Option<u32> {
        if let Some(known) = self.children.get(&(caller, function)) {
            return Some(*known);
        }
        if self.nodes.len() >= self.most_nodes {
            self.left_out += 1;
            return None;
        }
        let place = u32::try_from(self.nodes.len()).unwrap_or(NOT_PLACED);
        self.children.insert((caller, function), place);
        self.nodes.push(FunctionNode {
            caller,
            function,
            own: Values::default(),
            total: Values::default(),
            process: TopProcess::default(),
        });
        Some(place)
    }
}

/// The time of each node with everything that it calls.
fn totals(tree: &StackTree, own: &[Values]) -> Vec<Values> {
    let mut totals: Vec<Values> = own.to_vec();
    totals.resize(tree.len(), Values::default());
    for (number, (caller, _)) in tree.iter().enumerate().rev() {
        let total = totals.get(number).copied().unwrap_or_default();
        if caller != NodeNumber::NONE
            && let Some(caller) = totals.get_mut(caller.0 as usize)
        {
            caller.add(total);
        }
    }
    totals
}

/// The nodes to show, in the order of their drawing: each before its children. One column per
/// property, because an answer has thousands of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct NodeColumns {
    /// Distance from the first node.
    pub(super) depth: Vec<u32>,
    /// Index in the list of functions; `None` for the node that stands for all stacks.
    pub(super) function: Vec<Option<usize>>,
    pub(super) total_ns: Vec<u64>,
    pub(super) self_ns: Vec<u64>,
    pub(super) before_ns: Vec<u64>,
    /// The process with the most time in the node, and its time.
    pub(super) process: Vec<u32>,
    pub(super) process_ns: Vec<u64>,
    /// Number of nodes that are too small to be shown, or for which the tree has no room.
    pub(super) left_out: usize,
}

/// What to show of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    /// The node to begin with.
    pub(super) start: u32,
    /// Smaller nodes are left out.
    pub(super) least_ns: u64,
    /// By function number: whether a search has found it.
    pub(super) is_found: &'a [bool],
}

/// The time of a function over all its nodes. Recursive calls count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FunctionTotals {
    pub(super) function: FunctionNumber,
    pub(super) own: Values,
    pub(super) total: Values,
}

/// The children of all nodes, each list in a given order.
struct Children {
    /// Pairs of caller and child, ordered by caller.
    all: Vec<(u32, u32)>,
}

impl Children {
    fn of(tree: &FunctionTree, rank: impl Fn(FunctionNumber) -> u32) -> Self {
        let numbered = (0..).zip(&tree.nodes).skip(1);
        let mut all: Vec<(u32, u32)> = numbered
            .map(|(number, node)| (node.caller, number))
            .collect();
        all.sort_by_cached_key(|(caller, child)| (*caller, rank(tree.node(*child).function)));
        Self { all }
    }

    fn of_node(&self, caller: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
        let start = self.all.partition_point(|(known, _)| *known < caller);
        let of = self.all.get(start..).unwrap_or_default();
        let end = of.partition_point(|(known, _)| *known == caller);
        of.get(..end)
            .unwrap_or_default()
            .iter()
            .map(|(_, child)| *child)
    }
}

impl FunctionTree {
    /// The nodes to show. Children are ordered by `rank`. `index` returns the place of a function
    /// in the answer's list. Returns also the time of the stacks in which a found function occurs.
    pub(super) fn columns(
        &self,
        shown: Shown<'_>,
        rank: impl Fn(FunctionNumber) -> u32,
        mut index: impl FnMut(FunctionNumber) -> usize,
    ) -> (NodeColumns, Values) {
        let children = Children::of(self, rank);
        let mut columns = NodeColumns {
            left_out: self.left_out,
            ..NodeColumns::default()
        };
        let mut found = Values::default();
        let mut next = vec![(shown.start, 0_u32, false)];
        while let Some((number, depth, is_inside)) = next.pop() {
            let node = self.node(number);
            let is_found = shown.is_found.get(node.function.0 as usize) == Some(&true);
            if is_found && !is_inside {
                found.add(node.total);
            }
            let is_inside = is_inside || is_found;
            let below = children.of_node(number).rev();
            next.extend(below.map(|child| (child, depth.saturating_add(1), is_inside)));
            let is_start = number == shown.start;
            if node.total.now_ns < shown.least_ns && !is_start {
                columns.left_out += 1;
                continue;
            }
            let function = (node.function != NO_FUNCTION).then(|| index(node.function));
            columns.push(&node, depth, function);
        }
        (columns, found)
    }

    /// The time of every function below a node.
    pub(super) fn functions(&self, start: u32, count: usize) -> Vec<FunctionTotals> {
        enum Step {
            Enter(u32),
            Leave(FunctionNumber),
        }
        let children = Children::of(self, |_| 0);
        let mut sums = vec![(Values::default(), Values::default(), 0_u32); count];
        let mut steps = vec![Step::Enter(start)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(function) => {
                    if let Some((.., open)) = sums.get_mut(function.0 as usize) {
                        *open = open.saturating_sub(1);
                    }
                }
                Step::Enter(number) => {
                    let node = self.node(number);
                    if let Some((own, total, open)) = sums.get_mut(node.function.0 as usize) {
                        own.add(node.own);
                        if *open == 0 {
                            total.add(node.total);
                        }
                        *open += 1;
                        steps.push(Step::Leave(node.function));
                    }
                    steps.extend(children.of_node(number).map(Step::Enter));
                }
            }
        }
        let numbered = (0..).map(FunctionNumber).zip(sums);
        let used = numbered.filter(|(_, (_, total, _))| !total.is_zero());
        used.map(|(function, (own, total, _))| FunctionTotals {
            function,
            own,
            total,
        })
        .collect()
    }
}

impl NodeColumns {
    fn push(&mut self, node: &FunctionNode, depth: u32, function: Option<usize>) {
        self.depth.push(depth);
        self.function.push(function);
        self.total_ns.push(node.total.now_ns);
        self.self_ns.push(node.own.now_ns);
        self.before_ns.push(node.total.before_ns);
        self.process.push(node.process.top);
        self.process_ns.push(node.process.top_ns);
    }
}

#[cfg(test)]
mod tests;
