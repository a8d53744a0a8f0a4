//! The call tree of samples: for each path of functions, the cost of the samples that end in it.
//!
//! Built by [`super::functions`], which numbers the functions; merged by the flame graph of
//! `profiler diff`. Invariant: a node comes after its caller.

use std::collections::HashMap;

use super::functions::Cost;

/// A function that was called on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallNode {
    /// The node of the calling function; `None` for the outermost one.
    pub(crate) caller: Option<usize>,
    /// The number of the function.
    pub(crate) function: usize,
    /// The cost of the samples in which it is innermost.
    pub(crate) own: Cost,
}

/// All paths of some samples.
#[derive(Debug, Default)]
pub(crate) struct CallTree {
    nodes: Vec<CallNode>,
    known: HashMap<(Option<usize>, usize), usize>,
}

impl CallTree {
    /// Adds the cost of samples with the same functions, the outermost first.
    pub(super) fn add(&mut self, path: impl IntoIterator<Item = usize>, cost: Cost) {
        let mut node = None;
        for function in path {
            node = Some(self.callee(node, function));
        }
        if let Some(node) = node.and_then(|node| self.nodes.get_mut(node)) {
            node.own += cost;
        }
    }

    fn callee(&mut self, caller: Option<usize>, function: usize) -> usize {
        let next = self.nodes.len();
        let node = *self.known.entry((caller, function)).or_insert(next);
        if node == next {
            self.nodes.push(CallNode {
                caller,
                function,
                own: Cost::default(),
            });
        }
        node
    }

    /// The nodes, each after its caller.
    pub(crate) fn into_nodes(self) -> Vec<CallNode> {
        self.nodes
    }
}
