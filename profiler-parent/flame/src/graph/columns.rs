//! The nodes of a tree that an answer shows: the largest, as columns.
//!
//! Made for each request. Invariants: at most the requested number of nodes is shown, and each with
//! its caller; the tree is walked without recursion, each node once.

use std::cmp::Reverse;

use serde::Serialize;

use super::{FunctionNode, FunctionTree, NO_FUNCTION, Values};
use crate::frames::FunctionNumber;

/// The nodes to show, in the order of their drawing: each before its children. One column per
/// property, because an answer has thousands of nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct NodeColumns {
    /// Distance from the first node.
    pub(crate) depth: Vec<u32>,
    /// Index in the list of functions; `None` for the node that stands for all stacks.
    pub(crate) function: Vec<Option<usize>>,
    pub(crate) total_ns: Vec<u64>,
    pub(crate) self_ns: Vec<u64>,
    pub(crate) before_ns: Vec<u64>,
    /// The process with the most time in the node, and its time.
    pub(crate) process: Vec<u32>,
    pub(crate) process_ns: Vec<u64>,
    /// Number of nodes that are too small to be shown, or for which the tree has no room.
    pub(crate) left_out: usize,
}

/// The smallest node that is shown. Of nodes with the same time, those with smaller numbers are
/// shown. So a node is never shown without its caller, whose number is smaller and whose time is at
/// least as large: of a deep stack, the outer functions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeastNode {
    total_ns: u64,
    number: u32,
}

impl LeastNode {
    /// All nodes with this time or more, and at least a nanosecond.
    pub(crate) const fn with_time(total_ns: u64) -> Self {
        let total_ns = if total_ns == 0 { 1 } else { total_ns };
        Self {
            total_ns,
            number: u32::MAX,
        }
    }

    const fn admits(self, number: u32, total_ns: u64) -> bool {
        let is_same = total_ns == self.total_ns && number <= self.number;
        total_ns > self.total_ns || is_same
    }
}

/// What to show of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    /// The node to begin with.
    pub(crate) start: u32,
    /// Smaller nodes are left out.
    pub(crate) least: LeastNode,
    /// By function number: whether a search has found it.
    pub(crate) is_found: &'a [bool],
}

/// The children of all nodes, each list in a given order.
pub(super) struct Children {
    /// Pairs of caller and child, ordered by caller.
    all: Vec<(u32, u32)>,
}

impl Children {
    /// The children of all nodes; each list is ordered by `rank`.
    pub(super) fn of(tree: &FunctionTree, rank: impl Fn(FunctionNumber) -> u32) -> Self {
        let numbered = (0..).zip(&tree.nodes).skip(1);
        let mut all: Vec<(u32, u32)> = numbered
            .map(|(number, node)| (node.caller, number))
            .collect();
        all.sort_by_cached_key(|(caller, child)| (*caller, rank(tree.node(*child).function)));
        Self { all }
    }

    /// The children of a node.
    pub(super) fn of_node(&self, caller: u32) -> impl DoubleEndedIterator<Item = u32> + '_ {
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
    /// The smallest node to show, for at most `most` nodes from `start` on and none without time.
    /// Takes one pass over the nodes, however deep the tree is.
    pub(crate) fn least_for(&self, start: u32, most: usize) -> LeastNode {
        let mut is_below = vec![false; self.nodes.len()];
        let mut totals = Vec::new();
        for (number, node) in (0..).zip(&self.nodes) {
            let below = number == start || is_below.get(node.caller as usize) == Some(&true);
            if let Some(place) = is_below.get_mut(number as usize).filter(|_| below) {
                *place = true;
                totals.push((Reverse(node.total.now_ns), number));
            }
        }
        let last = most.saturating_sub(1);
        if totals.len() <= last.saturating_add(1) {
            return LeastNode::with_time(0);
        }
        let (_, (Reverse(total_ns), number), _) = totals.select_nth_unstable(last);
        match *total_ns {
            0 => LeastNode::with_time(0),
            total_ns => LeastNode {
                total_ns,
                number: *number,
            },
        }
    }

    /// The functions of all nodes that are shown. A function may occur several times.
    pub(crate) fn functions_with(&self, least: LeastNode) -> impl Iterator<Item = FunctionNumber> {
        let numbered = (0_u32..).zip(&self.nodes).skip(1);
        let large = numbered.filter(move |(number, node)| least.admits(*number, node.total.now_ns));
        large.map(|(_, node)| node.function)
    }

    /// The nodes to show. Children are ordered by `rank`. `index` returns the place of a function
    /// in the answer's list. Returns also the time of the stacks in which a found function occurs.
    pub(crate) fn columns(
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
            if !shown.least.admits(number, node.total.now_ns) && !is_start {
                columns.left_out += 1;
                continue;
            }
            let function = (node.function != NO_FUNCTION).then(|| index(node.function));
            columns.push(&node, depth, function);
        }
        (columns, found)
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
