//! A call tree: a node for each path of functions, with the weight of the stacks that end in it.
//!
//! [`super::tree`] makes one for each thread of an export; the `profiler` command makes them for
//! its flame graphs. The functions of a tree are numbers or names, and a weight is whatever can be
//! added up. Invariants: every path has one node; a node has a larger number than its caller.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::ops::AddAssign;

/// The number of a node. The first node is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(NonZeroU32);

impl CallId {
    /// The first node of a tree.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The number.
    pub const fn number(self) -> u32 {
        self.0.get()
    }

    /// The place of the node in a list of all nodes.
    pub const fn index(self) -> usize {
        self.number() as usize - 1
    }
}

/// A function that was called on a path.
#[derive(Clone, Copy, Debug)]
pub struct CallNode<F, W> {
    /// The function.
    pub func: F,
    /// The node of the calling function; `None` for an outermost one.
    pub caller: Option<CallId>,
    /// The weight of the stacks that end in the node.
    pub own: W,
    first_callee: Option<CallId>,
    last_callee: Option<CallId>,
    next_sibling: Option<CallId>,
}

/// The paths of some stacks. See the [module](self).
#[derive(Debug)]
pub struct CallTree<F, W> {
    nodes: Vec<CallNode<F, W>>,
    known: HashMap<(Option<CallId>, F), CallId>,
}

impl<F, W> Default for CallTree<F, W> {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            known: HashMap::new(),
        }
    }
}

impl<F, W> CallTree<F, W> {
    /// All nodes with their numbers, each after its caller.
    pub fn nodes(&self) -> impl Iterator<Item = (CallId, &CallNode<F, W>)> {
        let numbers = (1..).filter_map(NonZeroU32::new).map(CallId);
        numbers.zip(&self.nodes)
    }

    /// The number of nodes.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The node with this number.
    pub fn node(&self, id: CallId) -> Option<&CallNode<F, W>> {
        self.nodes.get(id.index())
    }

    /// The callees of a node, in the order of their numbers.
    pub fn callees(&self, node: &CallNode<F, W>) -> impl Iterator<Item = CallId> {
        std::iter::successors(node.first_callee, |id| self.node(*id)?.next_sibling)
    }

    /// A node, its caller, and so on.
    pub fn callers(&self, id: CallId) -> impl Iterator<Item = (CallId, &CallNode<F, W>)> {
        let at = |id: CallId| Some((id, self.node(id)?));
        std::iter::successors(at(id), move |(_, node)| at(node.caller?))
    }

    /// Removes all nodes.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.known.clear();
    }
}

impl<F: Copy + Eq + Hash, W: Copy + Default + AddAssign> CallTree<F, W> {
    /// Adds a stack with its weight. The outermost function comes first. Returns its node; an empty
    /// stack has none.
    pub fn add(&mut self, path: impl IntoIterator<Item = F>, weight: W) -> Option<CallId> {
        let mut place = None;
        for func in path {
            place = Some(self.callee(place, func));
        }
        self.add_own(place?, weight);
        place
    }

    /// The node of a function that is called by `caller`, or is outermost. Made if there is none.
    pub fn callee(&mut self, caller: Option<CallId>, func: F) -> CallId {
        let next = u32::try_from(self.nodes.len() + 1).unwrap_or(u32::MAX);
        let next = CallId(NonZeroU32::new(next).unwrap_or(NonZeroU32::MAX));
        let id = *self.known.entry((caller, func)).or_insert(next);
        if id == next {
            self.nodes.push(CallNode {
                func,
                caller,
                own: W::default(),
                first_callee: None,
                last_callee: None,
                next_sibling: None,
            });
            self.link(caller, id);
        }
        id
    }

    /// Adds a node to the callees of its caller.
    fn link(&mut self, caller: Option<CallId>, id: CallId) {
        let Some(caller) = caller.and_then(|caller| self.node_mut(caller)) else {
            return;
        };
        let before = caller.last_callee.replace(id);
        caller.first_callee = caller.first_callee.or(Some(id));
        if let Some(before) = before.and_then(|before| self.node_mut(before)) {
            before.next_sibling = Some(id);
        }
    }

    fn node_mut(&mut self, id: CallId) -> Option<&mut CallNode<F, W>> {
        self.nodes.get_mut(id.index())
    }

    /// Adds the weight of a stack that ends in a node.
    pub fn add_own(&mut self, id: CallId, weight: W) {
        if let Some(node) = self.node_mut(id) {
            node.own += weight;
        }
    }

    /// Adds all stacks of another tree, with other functions and weights for those of that tree.
    pub fn merge<G: Copy, V: Copy>(
        &mut self,
        other: &CallTree<G, V>,
        func: impl Fn(G) -> F,
        weight: impl Fn(V) -> W,
    ) {
        let mut places: Vec<CallId> = Vec::with_capacity(other.count());
        for (_, node) in other.nodes() {
            let caller = node
                .caller
                .and_then(|caller| places.get(caller.index()).copied());
            let place = self.callee(caller, func(node.func));
            self.add_own(place, weight(node.own));
            places.push(place);
        }
    }

    /// The weight of each node with all of its callees, in the order of the nodes.
    pub fn totals(&self) -> Vec<W> {
        let mut totals = vec![W::default(); self.count()];
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let Some(total) = totals.get_mut(index) else {
                continue;
            };
            *total += node.own;
            let total = *total;
            if let Some(caller) = node
                .caller
                .and_then(|caller| totals.get_mut(caller.index()))
            {
                *caller += total;
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(stacks: &[(&'static str, u64)]) -> CallTree<char, u64> {
        let mut tree = CallTree::default();
        for (path, weight) in stacks {
            tree.add(path.chars(), *weight);
        }
        tree
    }

    /// The function, the number of the caller and the own weight of each node.
    fn shown<F: Copy>(tree: &CallTree<F, u64>) -> Vec<(F, u32, u64)> {
        let nodes = tree.nodes();
        let shown = nodes.map(|(_, node)| {
            let caller = node.caller.map_or(0, CallId::number);
            (node.func, caller, node.own)
        });
        shown.collect()
    }

    #[test]
    fn every_path_has_one_node_with_the_sum_of_its_stacks() {
        let tree = tree(&[("ab", 3), ("a", 1), ("b", 5), ("aa", 2), ("ab", 4), ("", 9)]);
        let expected = [('a', 0, 1), ('b', 1, 7), ('b', 0, 5), ('a', 1, 2)];
        assert_eq!(shown(&tree), expected);
        assert_eq!(tree.totals(), [10, 7, 5, 2]);
        let first = tree.node(CallId::FIRST).unwrap();
        let callees: Vec<u32> = tree.callees(first).map(CallId::number).collect();
        assert_eq!(callees, [2, 4]);
        let (last, _) = tree.nodes().last().unwrap();
        let callers: Vec<u32> = tree.callers(last).map(|(id, _)| id.number()).collect();
        assert_eq!(callers, [4, 1]);
    }

    #[test]
    fn trees_of_other_functions_and_weights_are_merged() {
        let mut sum = CallTree::default();
        for other in [tree(&[("ab", 1), ("c", 2)]), tree(&[("ac", 3), ("b", 4)])] {
            sum.merge(&other, |func| func == 'a', |weight| weight * 10);
        }
        let expected = [(true, 0, 0), (false, 1, 40), (false, 0, 60)];
        assert_eq!(shown(&sum), expected);
    }
}
