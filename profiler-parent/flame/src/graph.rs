//! The tree of functions that a flame graph shows, merged from the stacks of all processes.
//!
//! Made for each request; [`columns`] chooses the nodes to show, and [`functions`] adds up the time
//! of each function. Pure: the input are trees of frames with the time of each node.
//! Invariants: the total of a node is its own time and the totals of its children; the total of the
//! root is the time of all stacks; a node's caller has a smaller number. The size of a tree is
//! bounded, because stacks are foreign data: the time of a function that does not fit stays with
//! its caller.

mod columns;
mod functions;

use crate::frames::{FrameTable, FunctionNumber};
use crate::hash::FastMap;
use crate::stack_tree::{NodeNumber, StackTree};
pub(crate) use columns::{NodeColumns, Shown};
pub(crate) use functions::FunctionTotals;

/// Time in the window, and in the window before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) now_ns: u64,
    pub(crate) before_ns: u64,
}

impl Values {
    /// Adds time.
    pub(crate) fn add(&mut self, other: Self) {
        self.now_ns = self.now_ns.saturating_add(other.now_ns);
        self.before_ns = self.before_ns.saturating_add(other.before_ns);
    }

    /// Whether there is no time in either window.
    pub(crate) const fn is_zero(self) -> bool {
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
const MAX_TREE_NODES: usize = 1 << 19;
/// Limit on the steps from a function to its caller in which a tree is inverted.
const MAX_STEPS: usize = 1 << 22;

/// The own time of a node in one process.
#[derive(Clone, Copy, Debug)]
struct OwnTime {
    process: u32,
    place: u32,
    own: Values,
}

/// A tree of functions.
#[derive(Debug)]
pub(crate) struct FunctionTree {
    nodes: Vec<FunctionNode>,
    children: FastMap<(u32, FunctionNumber), u32>,
    /// The own time of all nodes, one process after the other.
    own: Vec<OwnTime>,
    most_nodes: usize,
    /// Number of times that a function did not fit.
    left_out: usize,
}

impl FunctionTree {
    /// A tree without time.
    pub(crate) fn new() -> Self {
        Self::with_most(MAX_TREE_NODES)
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
            children: FastMap::default(),
            own: Vec::new(),
            most_nodes,
            left_out: 0,
        }
    }

    /// Adds the stacks of a process. `own` has the time of each node of its tree, and `stackless`
    /// the time of samples without a stack.
    pub(crate) fn add_process(
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
    pub(crate) fn inverted(&self) -> Self {
        self.inverted_within(MAX_STEPS)
    }

    /// Inverts in at most this many steps. Without a step left, time stays at the callee reached.
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
    pub(crate) fn total(&self) -> Values {
        self.node(ROOT).total
    }

    /// The node at the end of a path of functions from the root; `None` if there is none.
    pub(crate) fn find(&self, path: &[FunctionNumber]) -> Option<u32> {
        path.iter().try_fold(ROOT, |place, function| {
            self.children.get(&(place, *function)).copied()
        })
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

#[cfg(test)]
mod tests;
