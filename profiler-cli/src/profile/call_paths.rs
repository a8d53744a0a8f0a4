//! Adds stacks of a table to a call tree.
//!
//! Used by `functions` for flame graphs. Each stack of the table is looked up in the tree once:
//! stacks share their callers, and a sample may be on each function of a deep chain.

use profiler_export::call_tree::{CallId, CallTree};
use profiler_reader::{FuncId, NodeId, Tables};

use super::cost::Cost;

/// The nodes of a call tree for the stacks of a table.
#[derive(Debug)]
pub(super) struct CallPaths<'t> {
    tables: &'t Tables,
    /// By function of the tables: its number.
    numbers: &'t [Option<usize>],
    /// By stack: its node, and whether it is known.
    known: Vec<Option<Option<CallId>>>,
    missing: Vec<(NodeId, FuncId)>,
}

impl<'t> CallPaths<'t> {
    pub(super) fn new(tables: &'t Tables, numbers: &'t [Option<usize>]) -> Self {
        Self {
            tables,
            numbers,
            known: vec![None; tables.node_count()],
            missing: Vec::new(),
        }
    }

    /// Adds a stack with its cost.
    pub(super) fn add(&mut self, tree: &mut CallTree<usize, Cost>, stack: NodeId, cost: Cost) {
        let mut place = None;
        for (node, func) in self.tables.named_nodes(stack) {
            if let Some(known) = self.known.get(node.0 as usize).copied().flatten() {
                place = known;
                break;
            }
            self.missing.push((node, func));
        }
        for (node, func) in self.missing.drain(..).rev() {
            if let Some(number) = self.numbers.get(func.0 as usize).copied().flatten() {
                place = Some(tree.callee(place, number));
            }
            if let Some(known) = self.known.get_mut(node.0 as usize) {
                *known = Some(place);
            }
        }
        if let Some(place) = place {
            tree.add_own(place, cost);
        }
    }
}
