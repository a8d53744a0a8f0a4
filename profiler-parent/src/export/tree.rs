//! The call tree of one thread: one node for each path of functions, as V8's formats require.
//!
//! Used by the formats that have call trees. Two samples in one function on different lines share a
//! node; each level of a recursion is a
//! separate node. Invariant: every node except the root has exactly one caller, and the caller has
//! a smaller number.

use std::collections::{BTreeMap, HashMap};

use super::slices::Slice;
use crate::reading::{FuncId, NodeId, Tables};

/// The number of a node; the root is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TreeId(pub(super) u32);

/// The root.
pub(super) const ROOT: TreeId = TreeId(1);

/// The kind of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Root,
    /// The thread was not running on a processor.
    Idle,
    /// The function is unknown.
    Program,
    Func(FuncId),
}

impl What {
    /// The name that viewers expect for a node that is not a function.
    pub(super) const fn special(self) -> Option<&'static str> {
        match self {
            Self::Root => Some("(root)"),
            Self::Idle => Some("(idle)"),
            Self::Program => Some("(program)"),
            Self::Func(_) => None,
        }
    }
}

/// A node.
#[derive(Debug)]
pub(super) struct TreeNode {
    pub(super) what: What,
    pub(super) caller: Option<TreeId>,
    pub(super) children: Vec<TreeId>,
    /// Number of samples in it.
    pub(super) hits: u64,
    /// Number of samples in it by line, from 1.
    pub(super) lines: BTreeMap<u32, u64>,
}

/// The call tree of one thread. See the [module](self).
#[derive(Debug)]
pub(super) struct CallTree {
    nodes: Vec<TreeNode>,
    index: HashMap<(TreeId, What), TreeId>,
    known: HashMap<NodeId, TreeId>,
}

impl CallTree {
    pub(super) fn new() -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            index: HashMap::new(),
            known: HashMap::new(),
        };
        tree.push(What::Root, None);
        tree
    }

    /// All nodes with their numbers; callers come first.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (TreeId, &TreeNode)> {
        (ROOT.0..).map(TreeId).zip(&self.nodes)
    }

    /// Counts a slice in its node. Returns the node and the line.
    pub(super) fn count(&mut self, tables: &Tables, slice: &Slice) -> (TreeId, Option<u32>) {
        let id = self.place(tables, slice);
        let leaf = slice.stack.filter(|_| !slice.is_idle);
        let line = leaf.and_then(|leaf| tables.leaf(leaf)?.line);
        if let Some(node) = self.node_mut(id) {
            node.hits += 1;
            if let Some(line) = line {
                *node.lines.entry(line).or_insert(0) += 1;
            }
        }
        (id, line)
    }

    /// The node of a slice.
    pub(super) fn place(&mut self, tables: &Tables, slice: &Slice) -> TreeId {
        let place = match slice.stack {
            _ if slice.is_idle => return self.child(ROOT, What::Idle),
            Some(stack) => self.stack(tables, stack),
            None => ROOT,
        };
        // A stack without a function is treated as missing.
        if place == ROOT {
            self.child(ROOT, What::Program)
        } else {
            place
        }
    }

    fn stack(&mut self, tables: &Tables, stack: NodeId) -> TreeId {
        let mut path = Vec::new();
        let mut at = Some(stack);
        let mut place = ROOT;
        while let Some(node) = at {
            if let Some(known) = self.known.get(&node) {
                place = *known;
                break;
            }
            path.push(node);
            at = tables.node(node).and_then(|node| node.caller);
        }
        for node in path.into_iter().rev() {
            let frame = tables.node(node).and_then(|node| tables.frame(node.frame));
            if let Some(frame) = frame.filter(|frame| tables.function(frame.func).is_some()) {
                place = self.child(place, What::Func(frame.func));
            }
            self.known.insert(node, place);
        }
        place
    }

    fn child(&mut self, caller: TreeId, what: What) -> TreeId {
        if let Some(known) = self.index.get(&(caller, what)) {
            return *known;
        }
        let id = self.push(what, Some(caller));
        self.index.insert((caller, what), id);
        if let Some(node) = self.node_mut(caller) {
            node.children.push(id);
        }
        id
    }

    fn push(&mut self, what: What, caller: Option<TreeId>) -> TreeId {
        self.nodes.push(TreeNode {
            what,
            caller,
            children: Vec::new(),
            hits: 0,
            lines: BTreeMap::new(),
        });
        TreeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX))
    }

    fn node_mut(&mut self, id: TreeId) -> Option<&mut TreeNode> {
        self.nodes.get_mut((id.0 as usize).checked_sub(1)?)
    }

    /// The node with this number.
    pub(super) fn node(&self, id: TreeId) -> Option<&TreeNode> {
        self.nodes.get((id.0 as usize).checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reading::{Frame, FrameId, Func, Node, TextId};

    fn slice(stack: u32) -> Slice {
        Slice {
            start: 0,
            end: 1,
            stack: Some(NodeId(stack)),
            is_idle: false,
            cpu: 0,
            is_sample: true,
        }
    }

    /// `a` calls itself twice, and each of the three calls `b`, one call being on two lines; frame
    /// 3 has no function.
    fn tables() -> Tables {
        let func = |name| Func {
            name: TextId(name),
            file: None,
            line: None,
            column: None,
            library: None,
        };
        let frame = |func, line| Frame {
            func: FuncId(func),
            line,
            address: None,
        };
        let node = |caller: Option<u32>, frame| Node {
            caller: caller.map(NodeId),
            frame: FrameId(frame),
        };
        let a = 0;
        let b = 1;
        let other_b = 2;
        let nothing = 3;
        Tables::new(
            vec![
                node(None, a),
                node(Some(0), a),
                node(Some(1), a),
                node(Some(0), b),
                node(Some(1), b),
                node(Some(2), b),
                node(Some(2), other_b),
                node(Some(2), nothing),
                node(None, nothing),
            ],
            vec![
                frame(0, None),
                frame(1, Some(7)),
                frame(1, Some(9)),
                frame(5, None),
            ],
            vec![func(0), func(1)],
            vec!["a".to_owned(), "b".to_owned()],
        )
    }

    #[test]
    fn x2_recursion_and_shared_callees_give_every_node_one_caller() {
        let tables = tables();
        let mut tree = CallTree::new();
        let ids: Vec<u32> = (0..9)
            .map(|stack| tree.count(&tables, &slice(stack)).0.0)
            .collect();
        assert_eq!(
            ids,
            [2, 3, 4, 5, 6, 7, 7, 4, 8],
            "the root is 1; `b` on two lines is one node; a frame without a function adds no node"
        );
        let callers: Vec<_> = tree
            .nodes()
            .map(|(_, node)| node.caller.map(|id| id.0))
            .collect();
        assert_eq!(
            callers,
            [
                None,
                Some(1),
                Some(2),
                Some(3),
                Some(2),
                Some(3),
                Some(4),
                Some(1)
            ]
        );
        let mut listed: Vec<TreeId> = tree
            .nodes()
            .flat_map(|(_, node)| node.children.clone())
            .collect();
        listed.sort();
        assert_eq!(
            listed,
            (2..=8).map(TreeId).collect::<Vec<_>>(),
            "every node is the child of one node"
        );
        assert_eq!(
            tree.node(TreeId(7)).unwrap().lines,
            BTreeMap::from([(7, 1), (9, 1)])
        );
        assert_eq!(tree.node(TreeId(8)).unwrap().what, What::Program);
    }

    #[test]
    fn a_deep_path_is_built_without_recursion() {
        let mut deep = tables();
        deep.nodes = (0..200_000)
            .map(|n: u32| Node {
                caller: n.checked_sub(1).map(NodeId),
                frame: FrameId(0),
            })
            .collect();
        let mut tree = CallTree::new();
        assert_eq!(tree.place(&deep, &slice(199_999)), TreeId(200_001));
    }
}
