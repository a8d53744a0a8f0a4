//! The tables of functions and stacks of an imported profile.
//!
//! Made from the nodes of a call tree by [`super::processed`]. Invariant: the nodes are not trusted:
//! they may refer to each other in cycles.

use std::collections::{HashMap, HashSet};

use super::format::{CallFrame, Node};

/// The functions and the stacks.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) funcs: Vec<CallFrame>,
    /// Indices of the caller and of the function.
    pub(super) stacks: Vec<(Option<usize>, usize)>,
    by_id: HashMap<u64, usize>,
}

impl Tables {
    pub(super) fn of(nodes: &[Node]) -> Self {
        let mut tables = Self {
            funcs: Vec::new(),
            stacks: Vec::new(),
            by_id: HashMap::new(),
        };
        let rows: HashMap<u64, usize> =
            (0..).zip(nodes).map(|(row, node)| (node.id, row)).collect();
        let mut callers: HashMap<u64, u64> = HashMap::new();
        for node in nodes {
            callers.extend(node.parent.map(|parent| (node.id, parent)));
            callers.extend(node.children.iter().map(|child| (*child, node.id)));
        }
        let mut funcs = HashMap::new();
        for node in nodes {
            tables.add(
                node.id,
                &callers,
                |id| nodes.get(*rows.get(&id)?),
                &mut funcs,
            );
        }
        tables
    }

    /// Adds a node after its callers. In a cycle, one node is treated as having no caller.
    fn add<'p>(
        &mut self,
        id: u64,
        callers: &HashMap<u64, u64>,
        node: impl Fn(u64) -> Option<&'p Node>,
        funcs: &mut HashMap<CallFrame, usize>,
    ) {
        let mut path = vec![id];
        let mut on_path = HashSet::from([id]);
        while let Some(caller) = path.last().and_then(|last| callers.get(last)) {
            if self.by_id.contains_key(caller)
                || node(*caller).is_none()
                || !on_path.insert(*caller)
            {
                break;
            }
            path.push(*caller);
        }
        for id in path.into_iter().rev() {
            let Some(frame) = node(id).map(|node| node.call_frame.clone()) else {
                continue;
            };
            if self.by_id.contains_key(&id) {
                continue;
            }
            let caller = callers
                .get(&id)
                .and_then(|caller| self.by_id.get(caller))
                .copied();
            let func = *funcs.entry(frame).or_insert_with_key(|frame| {
                self.funcs.push(frame.clone());
                self.funcs.len() - 1
            });
            self.by_id.insert(id, self.stacks.len());
            self.stacks.push((caller, func));
        }
    }

    /// The stack of a node.
    pub(super) fn stack(&self, node: u64) -> Option<usize> {
        self.by_id.get(&node).copied()
    }
}
